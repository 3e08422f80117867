"""RecBole's models inside ours: embeddings and auxiliary losses are RecBole's, the ranking loss is ours; refusals."""

import pytest
import recbole.utils
import torch
import torch.nn.functional as F
from recbole.config import Config
from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import GeneralRecommender
from recbole.model.general_recommender import BPR, LightGCN
from recbole.trainer import NCLTrainer
from recbole.utils import ModelType, get_model, get_trainer

from recbole_adaptau import adapt
from recbole_adaptau.errors import AdapTauError, OptionError
from recbole_adaptau.model import Adapted
from recbole_adaptau.model.adapted import _vary_alike
from recbole_adaptau.model.registry import MODELS
from recbole_adaptau.training.trainer import AdapTauTrainer
from tests.conftest import write_inter
from tests.helpers import build

BASES = ["BPR", "LightGCN", "NGCF", "SpectralCF", "DGCF", "SGL", "NCL", "SimpleX", "ENMF"]
SMALL = {"num_negatives": 20, "hidden_size_list": [8, 8], "num_clusters": 5, "node_dropout": 0.1}


def built(board, base, **changes):
    if base == "LightGCN":  # the name AdapTauLightGCN is that of our own
        adapt(LightGCN, name="AdapTauTheirLightGCN")
        base = "TheirLightGCN"
    made = build(f"AdapTau{base}", {**board, **SMALL, **changes})
    made.batch = next(iter(made.train))
    made.users, made.positives = made.batch["user_id"], made.batch["item_id"]
    return made


def with_negatives(made):
    """The batch as RecBole's own pairwise models want it; the negatives matter to no loss compared here."""
    return Interaction({**made.batch.interaction, "neg_item_id": made.positives.flip(0)})


@pytest.mark.parametrize("base", BASES)
def test_the_embeddings_rank_as_recboles_model_does(board, base):
    made = built(board, base)
    model = made.model.eval()
    theirs = get_model(base)(made.config, made.train._dataset).eval()
    theirs.load_state_dict(model.base.state_dict())
    everyone = torch.arange(model.n_users)
    want = theirs.full_sort_predict(Interaction({"user_id": everyone})).view(model.n_users, -1)
    users, items = model.encode()
    if base == "SimpleX":
        users, items = F.normalize(users, dim=1), F.normalize(items, dim=1)
    torch.testing.assert_close(users @ items.T, want, rtol=1e-4, atol=1e-6)
    # And our own prediction is their cosine.
    cosines = F.normalize(users, dim=1) @ F.normalize(items, dim=1).T
    got = model.full_sort_predict(Interaction({"user_id": everyone[1:]})).view(-1, model.n_items)
    torch.testing.assert_close(got[:, 1:], cosines[1:, 1:], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("base", BASES)
def test_every_parameter_of_the_base_that_encodes_is_trained(board, base):
    made = built(board, base)
    made.model.train()
    if base == "NCL":
        made.model.e_step()
    made.model.begin_epoch(0)
    loss = made.model.calculate_loss(made.batch)
    parts = loss if isinstance(loss, tuple) else (loss,)
    assert len(parts) == {"SGL": 2, "DGCF": 2, "NCL": 3}.get(base, 1) and all(part.isfinite() for part in parts)
    sum(parts).backward()
    still = [name for name, parameter in made.model.base.named_parameters() if not parameter.grad.abs().sum() > 0]
    assert still == []


def test_sgls_contrastive_loss_is_kept_in_proportion(board):
    made = built(board, "SGL")
    made.model.train()
    (ours,) = made.model.auxiliary_losses(made.users, made.positives)
    base, batch = made.model.base, with_negatives(made)
    whole = base.calculate_loss(batch)
    ranking = base.calc_bpr_loss(*base.forward(base.train_graph), made.users, made.positives, batch["neg_item_id"])
    # SGL adds two sums over the batch; ours are two means.
    assert ours.item() * len(made.users) == pytest.approx((whole - ranking).item(), rel=1e-4)
    assert ours.item() > 0


def test_ncls_two_contrastive_losses_and_its_trainer_are_kept(board):
    made = built(board, "NCL")
    made.model.e_step()
    made.model.encode()
    ours = made.model.auxiliary_losses(made.users, made.positives)
    theirs = made.model.base.calculate_loss(with_negatives(made))[1:]
    assert [loss.item() for loss in ours] == pytest.approx([loss.item() for loss in theirs], rel=1e-6)
    trainer = get_trainer(ModelType.GENERAL, "AdapTauNCL")
    assert issubclass(trainer, AdapTauTrainer) and issubclass(trainer, NCLTrainer)
    assert issubclass(get_trainer(ModelType.GENERAL, "AdapTauNGCF"), AdapTauTrainer)


def test_dgcfs_correlation_is_kept(board):
    made = built(board, "DGCF")
    model, batch = made.model, with_negatives(made)
    losses = []
    for weight in (model.base.cor_weight, 0.0):
        recbole.utils.init_seed(3, True)
        model.base.cor_weight, kept = weight, model.base.cor_weight
        losses.append(model.base.calculate_loss(batch).item())
        model.base.cor_weight = kept
    recbole.utils.init_seed(3, True)
    model.encode()
    (ours,) = model.auxiliary_losses(made.users, made.positives)
    assert ours.item() == pytest.approx(losses[0] - losses[1], rel=1e-3) and ours.item() > 0


def test_the_ranking_loss_is_ours_to_the_bit(board):
    """BPR's tables in AdapTauBPR give the loss and the temperatures that they give in AdapTauMF."""
    settings = {"reg_weight": 0.01, "reg_negatives": True}
    ours, adapted = build("AdapTauMF", {**board, **SMALL, **settings}), built(board, "BPR", **settings)
    with torch.no_grad():
        for name in ("user_embedding", "item_embedding"):
            getattr(adapted.model.base, name).weight.copy_(getattr(ours.model, name).weight)
    values = []
    for model in (ours.model, adapted.model):
        state = model.begin_epoch(0)
        torch.manual_seed(5)
        values.append((state, model.calculate_loss(adapted.batch).item()))
    assert values[0] == values[1]


def test_recboles_lightgcn_encodes_as_our_own(board):
    theirs = built(board, "LightGCN", n_layers=3)
    ours = build("AdapTauLightGCN", {**board, "n_layers": 3})
    with torch.no_grad():
        for name in ("user_embedding", "item_embedding"):
            getattr(ours.model, name).weight.copy_(getattr(theirs.model.base, name).weight)
    for one, other in zip(ours.model.encode(), theirs.model.encode(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("strategy", ["none", "fixed", "learned", "learned_user", "adaptive", "adaptive_user"])
def test_every_strategy_takes_embeddings_wider_than_the_tables(board, strategy):
    made = built(board, "NGCF", tau_strategy=strategy)
    assert made.model.encode()[0].shape == (made.model.n_users, 3 * 8)
    assert made.model.begin_epoch(0)["tau_0"] > 0 and made.model.calculate_loss(made.batch).isfinite()
    assert made.model.user_temperatures().shape == (made.model.n_users,)


def test_dropout_of_the_base_is_on_in_training_and_off_in_prediction(board):
    model = built(board, "NGCF", message_dropout=0.5).model.train()
    assert not torch.equal(model.encode()[0], model.encode()[0])
    one, other = (model._evaluated()[0] for _ in range(2))
    assert torch.equal(one, other) and model.base.emb_dropout.training


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("MultiVAE", "autoencoder"),
        ("DiffRec", "autoencoder"),
        ("EASE", "a traditional recommender"),
        ("SASRec", "a sequential recommender"),
        ("DeepFM", "a context recommender"),
        ("KGAT", "a knowledge recommender"),
        ("LINE", "second-order loss"),
        ("MF", "an Adap-tau model already"),
    ],
)
def test_unfit_kinds_are_refused_before_data_is_loaded(name, why):
    base = get_model("AdapTauMF") if name == "MF" else get_model(name)
    with pytest.raises(OptionError, match=f"cannot be adapted: .*{why}"):
        adapt(base)
    if name != "MF":
        with pytest.raises(OptionError, match=f"{name} cannot be adapted: .*{why}"):
            Config(f"AdapTau{name}", "no such dataset")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("NeuMF", "no embeddings of all users and all items"),
        ("FISM", "no embeddings of all users and all items"),
        ("NNCF", "scores are not products"),
    ],
)
def test_unfit_scores_are_refused_before_training(board, name, why):
    with pytest.raises(OptionError, match=f"{name} cannot be adapted: .*{why}"):
        built(board, name, neigh_embedding_size=8, ui_embedding_size=8)


def test_what_is_no_class_is_refused():
    with pytest.raises(OptionError, match="not a model class of RecBole's kind"):
        adapt("NGCF")


@pytest.mark.parametrize("name", ["AdapTauNGCF", "AdapTau[NGCF]"])
def test_names_defaults_and_precedence(name):
    config = Config(name, "ml-100k", config_dict={"message_dropout": 0.3})
    assert config["model"] == "AdapTauNGCF" and "AdapTauNGCF" in config["run_folder"]
    assert config["hidden_size_list"] == [64, 64, 64]  # of RecBole's NGCF.yaml
    assert (config["reg_weight"], config["epochs"], config["learning_rate"]) == (0.0, 50, 0.002)  # ours on top
    assert config["message_dropout"] == 0.3
    assert issubclass(get_model(name), Adapted) and get_model(name) is MODELS["AdapTauNGCF"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("AdapTauNGFC", "no model named 'AdapTauNGFC'. Did you mean 'AdapTauNGCF'"),
        ("AdapTau[NGFC]", "no model named 'NGFC'. Did you mean 'NGCF'"),
        ("AdapTauMff", "Did you mean 'AdapTauMF'"),
    ],
)
def test_misspelt_names_are_answered_with_the_nearest(name, message):
    with pytest.raises(AdapTauError) as caught:
        get_model(name)
    assert message in str(caught.value)


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(OptionError, match=r"AdapTauLightGCN is taken .* adapt\(LightGCN, name="):
        adapt(LightGCN)
    assert get_model("AdapTauLightGCN") is get_model("AdapTau[LightGCN]")


class Sloped(BPR):
    """A user's own model: BPR's tables, of which one side goes through a layer, and a loss of its own."""

    def __init__(self, config, dataset):
        super().__init__(config, dataset)
        self.slope = torch.nn.Linear(self.embedding_size, self.embedding_size)

    def encode(self):
        return self.user_embedding.weight, self.slope(self.item_embedding.weight)

    def auxiliary_losses(self, users, positives):
        return (self.slope.weight.square().sum(), self.slope.bias.square().sum())


def test_a_class_derived_from_recboles_has_its_properties_and_trainer():
    adapt(type("OtherNCL", (get_model("NCL"),), {}))
    config = Config("AdapTauOtherNCL", "ml-100k")
    assert (config["m_step"], config["n_layers"]) == (1, 3)  # of RecBole's NCL.yaml
    assert issubclass(get_trainer(ModelType.GENERAL, "AdapTauOtherNCL"), NCLTrainer)


def test_a_class_of_ones_own_says_what_its_embeddings_and_losses_are(board):
    adapt(Sloped)
    made = built(board, "Sloped")
    made.model.begin_epoch(0)
    _, first, second = made.model.calculate_loss(made.batch)
    slope = made.model.base.slope
    assert (first.item(), second.item()) == (slope.weight.square().sum().item(), slope.bias.square().sum().item())
    assert torch.equal(made.model.encode()[1], slope(made.model.base.item_embedding.weight))


class Remembering(BPR):
    """Keeps the embeddings that it last predicted from, as several of RecBole's models do."""

    def __init__(self, config, dataset):
        super().__init__(config, dataset)
        self.last, self.other_parameter_name = None, ["last"]

    def predict(self, interaction):
        self.last = self.user_embedding.weight.detach().clone()
        return super().predict(interaction)


def test_a_look_at_the_bases_scores_leaves_nothing_in_it(board):
    """What it kept then, before training, would be predicted from for ever."""
    adapt(Remembering)
    assert built(board, "Remembering").model.base.last is None


class Tableless(GeneralRecommender):
    """Yields embeddings, but has no tables for an L2 to be on."""

    input_type = BPR.input_type

    def __init__(self, config, dataset):
        super().__init__(config, dataset)
        self.users, self.items = (torch.nn.Parameter(torch.rand(n, 4)) for n in (self.n_users, self.n_items))

    def encode(self):
        return self.users, self.items


def test_l2_without_tables_is_refused(board):
    adapt(Tableless)
    assert built(board, "Tableless").model.calculate_loss is not None
    with pytest.raises(OptionError, match=r"reg_weight = 0\.1 is on the tables .* which Tableless does not have"):
        built(board, "Tableless", reg_weight=0.1)


class Yielding(Tableless):
    """Yields what the test says."""

    given = staticmethod(lambda users, items: (users, items))

    def encode(self):
        return self.given(self.users, self.items)


@pytest.mark.parametrize(
    "given",
    [
        lambda users, items: (None, items),
        lambda users, items: (users, items[:, :3]),
        lambda users, items: (users.unsqueeze(1), items.unsqueeze(1)),
        lambda users, items: (items, users[1:]),
        lambda users, items: None,
    ],
)
def test_what_is_no_pair_of_tables_is_refused(board, monkeypatch, given):
    adapt(Yielding)
    monkeypatch.setattr(Yielding, "given", staticmethod(given))
    with pytest.raises(OptionError, match=r"Yielding cannot be adapted: it yields no embeddings of all users"):
        built(board, "Yielding")


def test_what_comes_after_the_two_tables_is_left_alone(board, monkeypatch):
    adapt(Yielding)
    monkeypatch.setattr(Yielding, "given", staticmethod(lambda users, items: (users, items, items, 3)))
    model = built(board, "Yielding").model
    assert model.encode() == (model.base.users, model.base.items)


def test_l2_needs_both_tables(board, monkeypatch):
    class HalfTabled(Tableless):
        def __init__(self, config, dataset):
            super().__init__(config, dataset)
            self.user_embedding = torch.nn.Embedding(self.n_users, 4)

    adapt(HalfTabled)
    with pytest.raises(OptionError, match="which HalfTabled does not have"):
        built(board, "HalfTabled", reg_weight=0.1)


def test_a_class_that_is_no_recommender_is_refused():
    with pytest.raises(OptionError, match="dict cannot be adapted: it is not a model class of RecBole's kind"):
        adapt(dict)


def test_scores_that_differ_by_more_than_a_constant_or_do_not_differ_at_all_are_not_alike():
    a = torch.tensor([-1.0, 0.0, 1.0])
    assert _vary_alike(a + 5, a) and _vary_alike(1.01 * a, a)
    assert not _vary_alike(1.03 * a, a) and not _vary_alike(torch.ones(3), torch.ones(3))


def test_fewer_users_and_items_than_are_compared_can_be_adapted(tmp_path):
    pairs = [(f"u{u}", f"i{i}") for u in range(6) for i in range(8) if (u + i) % 2]
    write_inter(tmp_path, "tiny", pairs)
    settings = {
        "data_path": str(tmp_path), "topk": [1], "valid_metric": "NDCG@1", "num_negatives": 3, "state": "ERROR",
        "load_col": {"inter": ["user_id", "item_id"]}, "show_progress": False,
    }  # fmt: skip
    assert build("AdapTauBPR", settings, "tiny").model.n_users == 7


def test_the_strategys_network_starts_as_recboles_layers_do_and_from_the_setting(board):
    """Xavier uniform without bias, and a last layer of zeros: every user starts at `tau`, on any width of the base."""
    for base in ("BPR", "NGCF"):
        model = built(board, base, tau_strategy="learned_user", tau=0.3).model
        torch.testing.assert_close(model.user_temperatures(), torch.full((model.n_users,), 0.3))
        first = model.strategy.net[0]
        bound = (6 / sum(first.weight.shape)) ** 0.5
        assert 0.9 * bound < first.weight.abs().max() <= bound and not first.bias.any()


def test_dgcf_without_intents_or_weight_has_no_correlation(board):
    made = built(board, "DGCF")
    model, base = made.model, made.model.base
    weight = base.cor_weight
    for factors, weight_now, number in ((1, weight, 0), (4, 0.0, 0), (1, 0.0, 0), (2, weight, 1)):
        base.n_factors, base.cor_weight = factors, weight_now
        model._encoded = tuple(torch.rand(n, model.base.embedding_size) for n in (model.n_users, model.n_items))
        assert len(model.auxiliary_losses(made.users, made.positives)) == number


def test_ncls_clusters_are_kept_and_given_back(board):
    first, second = (built(board, "NCL").model for _ in range(2))
    first.e_step()
    second.load_other_parameter(first.other_parameter())
    for name, value in first.other_parameter().items():
        assert value is not None and torch.equal(second.other_parameter()[name], value)
