"""Our RecBole models."""

from .adaptaulightgcn import AdapTauLightGCN
from .adaptaumf import AdapTauMF
from .adapted import Adapted
from .base import AdapTauRecommender
from .simgcl import SimGCL
from .xsimgcl import XSimGCL

__all__ = ["AdapTauLightGCN", "AdapTauMF", "AdapTauRecommender", "Adapted", "SimGCL", "XSimGCL"]
