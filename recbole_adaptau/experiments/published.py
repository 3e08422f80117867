"""What the paper (WWW 2023) reports for Adap-tau: recall@20 and NDCG@20, with validation = test."""

# Adap-tau with a temperature for each user: tau_strategy = adaptive_user.
ADAP_TAU = {
    ("AdapTauMF", "ml-1m"): {"recall@20": 0.2815, "ndcg@20": 0.2673},
    ("AdapTauMF", "gowalla"): {"recall@20": 0.1838, "ndcg@20": 0.1506},
    ("AdapTauMF", "yelp2018"): {"recall@20": 0.0721, "ndcg@20": 0.0594},
    ("AdapTauMF", "amazon-book"): {"recall@20": 0.0553, "ndcg@20": 0.0430},
    ("AdapTauLightGCN", "ml-1m"): {"recall@20": 0.2787, "ndcg@20": 0.2615},
    ("AdapTauLightGCN", "gowalla"): {"recall@20": 0.1901, "ndcg@20": 0.1590},
    ("AdapTauLightGCN", "yelp2018"): {"recall@20": 0.0733, "ndcg@20": 0.0612},
    ("AdapTauLightGCN", "amazon-book"): {"recall@20": 0.0612, "ndcg@20": 0.0490},
}


def published(model: str, dataset: str, protocol: str, strategy: str | None) -> dict[str, float] | None:
    """The paper's figures for such a run; None where it has none, or where they could not be compared."""
    comparable = protocol == "paper" and strategy == "adaptive_user"
    return ADAP_TAU.get((model, dataset)) if comparable else None
