"""What a trained model is for: recommendations, and embeddings for a system of your own."""

from .embeddings import Embeddings, embeddings_of
from .recommender import Recommender

__all__ = ["Embeddings", "Recommender", "embeddings_of"]
