"""Our RecBole models."""

from ..peers.simgcl import SimGCL
from ..peers.xsimgcl import XSimGCL
from .adaptaulightgcn import AdapTauLightGCN
from .adaptaumf import AdapTauMF
from .adapted import Adapted
from .base import AdapTauRecommender

__all__ = ["AdapTauLightGCN", "AdapTauMF", "AdapTauRecommender", "Adapted", "SimGCL", "XSimGCL"]
