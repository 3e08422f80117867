"""Our RecBole models; a file here that defines one makes it known by its class name."""

from .adaptaulightgcn import AdapTauLightGCN
from .adaptaumf import AdapTauMF
from .adapted import Adapted
from .base import AdapTauRecommender

__all__ = ["AdapTauLightGCN", "AdapTauMF", "AdapTauRecommender", "Adapted"]
