"""`solid`: an encoder, a law per cell, and a copula; the strict form of the paper's idea, and the default model.

    m, s  = kriging(X_c, M_i, lead)                              where the law of each cell starts (`prior.py`)
    f     = UNet([X_c, M_i, lead, m, s, place, covariates])      once per query; knows nothing of tau or of members
    x(p)  = m(p) + s(p) Q(z(p); f_p)                             a law per cell (`laws.py`), learned on M_o alone
    z     ~ copula(f, M_i)                                       latent fields with N(0, 1) marginals (`copula.py`)

Reference: SOLID (Valencia et al. 2026) for the task and the dual-masked objective. Departures, and why:
- the paper's denoiser reads x_tau at every cell, which is unknown off M_o; ours reads it at its own cell only, so
  training and sampling meet the same distribution and nothing leaks (docs/heart.md measures what the alternatives
  cost);
- the expensive network does not see tau and runs once per query, not fifty times per member;
- laws are learned in units of a prior, the law that kriging with a fitted covariance gives the cell (`prior="none"`:
  in standard deviations of the variable); docs/decisions.md says why. Where cells differ in law everything above is of
  normal scores by cell, if these are predicted better (`prior.units`);
- at lead 0 the reading of a sensor is known and pinned in every member (within `obs_std` of it where readings have
  an error), so its law is never drawn from and is not trained either: the likelihood of a value that is known has
  no bound, and its gradient would drown all others;
- z is stretched as held-out targets ask: a network that saw few days is too sure of new ones, coordinates and history
  make it too sure of cells it never met (`Holdout.calibration` keeps some, each judged by what the others ask for), and
  hidden sensors make it a little unsure;
- what tells of position is silent until learned (`queries.py`);
- a large map (`crops.py`) is learned in crops and encoded in overlapping ones, so that a cell costs the same on any;
- in a rollout the noise lasts from step to step as the latents of held-out targets do (`memory`): where sensors leave a
  void, what was not known at one step is not known at the next, and noise drawn anew each time would average it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import SolidError
from ..fields import Pair, Source
from ..forecast import Forecaster, Spec
from ..grid import lengths
from ..nn.unet import UNet
from ..noise import Noise
from ..scores.conformal import FEWEST, conformal_quantile
from ..theory.copula import Copula, Latents, channel_mixing, make_copula
from ..theory.law import Observed
from ..theory.laws import LAWS
from ..theory.nearby import CROP, cut, is_large
from ..theory.trajectory_copula import TrajectoryCopula, TrajectoryLatents
from .classical import adopt_shapes
from .crops import blended, crop_of, rows_needed
from .prior import Prior
from .queries import check_fill, coordinate_channels, in_patches, query_channels, query_width, silence
from .window_prior import WindowPrior

DOUBT = 11  # so many latents observed twice weigh as much as the guess that their correlation is 0 +- 0.3


class Solid(Forecaster):
    name = "solid"
    family = "distribution"
    reference = "this project, after SOLID (Valencia et al. 2026)"
    SIZES: ClassVar[dict[str, dict[str, Any]]] = {
        "smoke": {"base": 8, "multipliers": (1, 2), "blocks": 1, "attention_levels": (), "features": 16},
        "laptop": {
            "base": 16,
            "multipliers": (1, 2),
            "blocks": 1,
            "attention_levels": (),
            "features": 16,
            "patch": 2,
            "dropout": 0.05,
        },
        "paper": {"base": 64, "multipliers": (1, 2, 2, 2), "blocks": 2, "attention_levels": (2,), "features": 64},
    }

    def __init__(
        self,
        spec: Spec,
        *,
        base: int = 32,
        multipliers: tuple[int, ...] = (1, 2),
        blocks: int = 1,
        attention_levels: tuple[int, ...] = (),
        features: int = 32,
        patch: int = 1,  # cells along the side of a block that the encoder sees as one, with its cells as channels
        dropout: float = 0.1,
        law: str = "mixture",
        law_options: dict[str, Any] | None = None,
        copula: str = "conditioned",
        prior: str = "kriging",  # or "none"
        fill: str = "none",  # densify X_c first: "nearest", "idw" or "rbf"; the paper's strategies, for comparison
        coordinates: bool = True,
        lam: float = 0.05,  # the paper's overlap weight, from the range it recommends
        obs_std: float = 0.0,  # error of a reading, in standardised units; 0 pins readings exactly
    ):
        super().__init__(spec)
        if law not in LAWS:
            raise SolidError(f"unknown law '{law}'; choose one of {', '.join(LAWS)}")
        if prior not in ("kriging", "none"):
            raise SolidError(f"unknown prior '{prior}'; choose kriging or none")
        self.lam, self.obs_std, self.patch, self.fill = lam, obs_std, patch, check_fill(fill)
        place = coordinate_channels(spec, coordinates)
        self.register_buffer("place", place, persistent=False)
        self.place: Tensor
        kind = Prior if spec.window == 1 else WindowPrior
        self.prior = kind(spec, obs_std) if prior == "kriging" else None
        self.crops = is_large(spec.grid) and spec.window == 1
        width = query_width(spec, place) + (2 * spec.channels if self.prior else 0)
        self.encoder = UNet(
            width * patch**2,
            features * patch**2,
            base=base,
            multipliers=multipliers,
            blocks=blocks,
            attention_levels=attention_levels,
            dropout=dropout,
            time=False,
            periodic=(cut(spec.grid, CROP) if self.crops else spec.grid).periodic,
        )
        silence(self.encoder.stem, 2 * spec.channels + 1, len(place), patch)
        self.activate = nn.SiLU()
        self.law = LAWS[law](features, spec.channels, **(law_options or {}))
        self.register_buffer("strange", torch.zeros(spec.channels, *spec.grid.shape, dtype=torch.bool))
        self.strange: Tensor  # (C, H, W) bool, the cells that no target taught
        self.stretch: Tensor  # of z at (taught, strange) cells, at (lead 0, ahead), or at each lead of a window
        self.leads: Tensor  # (L,) of a window
        if spec.window > 1:
            self.register_buffer("leads", torch.zeros(1))
            self.register_load_state_dict_pre_hook(adopt_shapes)
        self.register_buffer("stretch", torch.ones(2, 2 if spec.window == 1 else 1))
        self.register_buffer("lasting", torch.zeros(()))
        self.lasting: Tensor  # the correlation of a cell's latents from step to step
        self.direct = spec.window > 1
        self.copula: Copula | TrajectoryCopula = make_copula(copula, spec.grid, spec.channels)
        if self.direct and copula == "conditioned":  # the others know no time: leads hang together by nothing
            self.copula = TrajectoryCopula(spec.grid, spec.channels, lengths(spec.grid)[0])
        self.copula.requires_grad_(False)

    def prepare(self, batches: Iterable[Pair]) -> None:
        pairs = list(batches)
        self._meet_leads(pairs)
        if self.prior is not None:
            self.prior.fit(pairs)

    def _meet_leads(self, pairs: list[Pair]) -> None:
        """With a window, learn which leads there are."""
        if self.direct:
            self.leads = torch.cat([pair.source.lead for pair in pairs]).unique().to(self.leads)
            self.stretch = self.stretch.new_ones(2, len(self.leads))

    def prepared(self) -> nn.Module | None:
        return self.prior

    def encode(
        self, source: Source, rows: slice | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:  # (B, F, h, W), and (B, C, h, W) twice
        """The features of a query, and the location and scale in whose units its laws are; of these rows, or of all."""
        source = self._scores(source)
        if self.crops and source.around is None:
            return self._encode_crops(source, rows or slice(0, source.values.shape[-2]))
        query, location, scale = self._inputs(source, None)
        features = self.activate(in_patches(self.encoder, query, self.patch))
        return tuple(part[..., rows or slice(None), :] for part in (features, location, scale))  # type: ignore[return-value]

    def _scores(self, source: Source) -> Source:
        """In the prior's units."""
        return self.prior.units.of_source(source) if isinstance(self.prior, Prior) else source

    def _score(self, values: Tensor) -> Tensor:  # (..., C, H, W) -> the same
        return self.prior.units.scores(values) if isinstance(self.prior, Prior) else values

    def _value(self, scores: Tensor, rows: slice | None = None) -> Tensor:  # (..., C, h, W) -> the same
        return self.prior.units.values(scores, rows) if isinstance(self.prior, Prior) else scores

    def _inputs(self, source: Source, rows: slice | None) -> tuple[Tensor, Tensor, Tensor]:
        """What the encoder sees, and the prior."""
        part = source if rows is None else source.map(lambda x: x[..., rows, :] if x.ndim > 1 else x)
        place = self._here(self.place, source)
        query = query_channels(part, self.spec, place if rows is None else place[..., rows, :], self.fill)
        if self.prior is None:
            return query, torch.zeros_like(part.values), torch.ones_like(part.values)
        location, scale = self.prior(source) if rows is None else self.prior(source, rows)
        return torch.cat([query, location, scale.log()], dim=1), location, scale

    def _encode_crops(self, source: Source, rows: slice) -> tuple[Tensor, Tensor, Tensor]:
        """A large map in crops that overlap, their features blended."""
        needed = rows_needed(self.spec.grid, rows)
        query, location, scale = self._inputs(source, needed)
        features = blended(lambda x: in_patches(self.encoder, x, self.patch), query, self.spec.grid, rows)
        there = slice(rows.start - needed.start, rows.stop - needed.start)
        return self.activate(features), location[..., there, :], scale[..., there, :]

    def _here(self, field: Tensor, source: Source) -> Tensor:  # (E, H, W) -> the same, or (B, E, h, w) of crops
        """What is known of the map, in a crop of it."""
        return field if source.around is None else crop_of(field, self.spec.grid, source)

    def loss(self, pair: Pair, generator: torch.Generator) -> Tensor:
        source, target = pair.source, pair.target
        mask = target.mask & ~pinned(source)
        features, location, scale = self.encode(source)
        b, c, y, x = mask.nonzero(as_tuple=True)
        values = ((self._score(target.values) - location) / scale)[b, c, y, x]
        each = self.law.loss(Observed(features.movedim(1, -1)[b, y, x], values, c), generator)
        overlap = 1 + self.lam * (source.mask & target.mask)[b, c, y, x]
        count = mask.flatten(1).sum(1).clamp_min(1)[b]  # per example |M_o|_1, then the mean over examples
        return (each * overlap / count).sum() / len(pair)

    @property
    def memory(self) -> float:
        return float(self.lasting)

    def sample(self, source: Source, members: int, noise: Noise) -> Tensor:
        return self.drawing(source)(members, noise)

    def sample_few(self, source: Source, members: int, noise: Noise) -> Tensor:
        return self._members(source, self._latent_fields(source, noise), self._laws(source, few=True))

    @torch.no_grad()
    def drawing(self, source: Source, rows: slice | None = None) -> Callable[[int, Noise], Tensor]:
        laws = self._laws(source, rows)
        return lambda members, noise: self._members(source, self._latent_fields(source, noise, rows), laws, rows)

    @torch.no_grad()
    def sample_leads(self, source: Source, leads: Sequence[int], members: int, noise: Noise) -> Tensor:
        """One pass a lead; the latents of all leads are drawn together."""
        asked = torch.tensor(leads, dtype=source.lead.dtype).expand(len(source), -1)
        at = [replace(source, lead=asked[:, i].to(source.lead)) for i in range(len(leads))]
        if isinstance(self.copula, TrajectoryCopula):
            z = self.copula(source, asked, noise, int(self.leads.max())).unbind(2)  # (K, B, C, H, W) each
        else:
            z = tuple(self.copula(one, noise) for one in at)
        each = zip(at, z, strict=True)
        return torch.stack([self._members(one, latents, self._laws(one)) for one, latents in each], dim=2)

    @torch.no_grad()
    def _latent_fields(self, source: Source, noise: Noise, rows: slice | None = None) -> Tensor:  # (K, B, C, h, W)
        if isinstance(self.copula, TrajectoryCopula):
            z = self.copula(source, source.lead[:, None], noise, int(self.leads.max()))[:, :, 0]
            return z[..., rows or slice(None), :]
        return self.copula(source, noise, rows)

    @torch.no_grad()
    def _laws(self, source: Source, rows: slice | None = None, few: bool = False) -> Callable[[Tensor], Tensor]:
        """From latents to values, (K, B, C, h, W) both, where nothing was read."""
        features, location, scale = self.encode(source, rows)
        look_up = self.law.lookup(features, few)
        wider = self._widening(source)[..., rows or slice(None), :]
        return lambda z: self._value(location + scale * look_up(z * wider), rows)

    @torch.no_grad()
    def _members(
        self, source: Source, z: Tensor, laws: Callable[[Tensor], Tensor], rows: slice | None = None
    ) -> Tensor:  # (K, B, C, h, W)
        read, there = source.read_then(), rows or slice(None)
        values, mask = read.values[..., there, :], read.mask[..., there, :]
        return torch.where(mask, values + self.obs_std * z, laws(z))

    def _widening(self, source: Source) -> Tensor:  # (B, C, H, W)
        taught, strange = self.stretch[:, self._kind(source.lead), None, None, None]  # (B, 1, 1, 1)
        return torch.where(self._here(self.strange, source), torch.maximum(taught, strange), taught)

    def _kind(self, lead: Tensor) -> Tensor:  # (B,) which stretch
        """With a window every lead has its own, and others the nearest one's."""
        return (lead[:, None] - self.leads).abs().argmin(1) if self.direct else (lead > 0).long()

    def conclude(
        self, held_out: Iterable[Pair], never_supervised: Tensor, followed: Iterable[tuple[Pair, Pair]] = ()
    ) -> None:
        """Stretch the laws as the latents of held-out targets ask, then fit the copula and the memory to them."""
        pairs = list(held_out)  # with a window, each batch is of one source, at all its leads
        self._meet_leads(pairs)
        self.strange.copy_(never_supervised)
        self.stretch.copy_(self._asked_stretch(pairs))
        together: list[Tensor] = []
        apart: list[Latents] = []
        trajectories: list[TrajectoryLatents] = []
        for pair in pairs:
            mask, z = self._latents(pair)
            z = z / self._widening(pair.source)
            together.append(z.movedim(1, -1)[mask.all(1)])
            if isinstance(self.copula, TrajectoryCopula):
                trajectories += trajectory_latents(pair.source, mask, z)
                continue
            flat, asked, read = z.flatten(2), mask.flatten(2), pair.source.mask.flatten(2)  # (B, C, HW)
            for b, c in product(range(len(pair)), range(self.spec.channels)):
                cells, sensors = asked[b, c].nonzero()[:, 0], read[b, c].nonzero()[:, 0]
                apart.append(Latents(flat[b, c, cells], cells, sensors, float(pair.source.lead[b])))
        self.copula.requires_grad_(True)
        if isinstance(self.copula, TrajectoryCopula):
            if isinstance(self.prior, WindowPrior):
                self.copula.adopt(self.prior.covariance[0])
            self.copula.fit(trajectories)
        else:
            self.copula.fit(apart)
        self.copula.requires_grad_(False)
        self.copula.mixing.copy_(channel_mixing(together))
        self.lasting.copy_(self._observed_lasting(followed))

    @torch.no_grad()
    def _latents(self, pair: Pair) -> tuple[Tensor, Tensor]:  # (B, C, H, W) bool, (B, C, H, W)
        """The targets that are not pinned, and their latents there."""
        features, location, scale = self.encode(pair.source)
        features = features.movedim(1, -1)
        values = (self._score(pair.target.values) - location) / scale
        mask = pair.target.mask & ~pinned(pair.source)
        b, c, y, x = mask.nonzero(as_tuple=True)
        z = torch.zeros_like(pair.target.values)
        z[b, c, y, x] = self.law.latent(Observed(features[b, y, x], values[b, c, y, x], c))
        return mask, z

    def _asked_stretch(self, pairs: list[Pair]) -> Tensor:  # (2, kinds of leads)
        """What makes a central 90 % interval hold 90 % of the held-out targets of each kind."""
        sizes, cells, strange, kinds = [], [], [], []
        for pair in pairs:
            mask, z = self._latents(pair)
            b, c, y, x = mask.nonzero(as_tuple=True)
            sizes.append(z[b, c, y, x].abs())
            corner = torch.zeros(len(pair), 2).long() if pair.source.around is None else pair.source.around.corner
            cells.append((y + corner[b, 0]) * self.spec.grid.shape[1] + x + corner[b, 1])
            strange.append(self._here(self.strange, pair.source).expand(len(pair), *z.shape[1:])[b, c, y, x])
            kinds.append(self._kind(pair.source.lead)[b])
        size, cell, new, kind = (torch.cat(parts).cpu().numpy() for parts in (sizes, cells, strange, kinds))
        every = range(self.stretch.shape[1])
        taught = [stretch_asked_by(size[~new & (kind == one)]) for one in every]
        there = [new & (kind == one) for one in every]
        return torch.tensor([taught, [stretch_at_new_cells(size[rows], cell[rows]) for rows in there]])

    def _observed_lasting(self, followed: Iterable[tuple[Pair, Pair]]) -> Tensor:  # ()
        """The correlation of a cell's latents at two targets a step apart, where both were observed; less if few."""
        earlier, later = [torch.zeros(0)], [torch.zeros(0)]
        for pair, following in followed:
            (mask, z), (again, after) = self._latents(pair), self._latents(following)
            earlier.append(z[mask & again].cpu())
            later.append(after[mask & again].cpu())
        count = sum(map(len, earlier))
        found = F.cosine_similarity(torch.cat(earlier), torch.cat(later), dim=0)
        return (found * count / (count + DOUBT)).clamp(0, 0.99)


def stretch_asked_by(sizes: np.ndarray) -> float:  # (n,) of latents, in the order of the examples
    """Wider as the targets ask; narrower only as far as both halves of them do, for days are not alike."""
    if len(sizes) < FEWEST:
        return 1.0
    whole, *halves = (_asked(part) for part in (sizes, *np.array_split(sizes, 2)))
    return max(whole, min(1.0, max(halves)))


def stretch_at_new_cells(sizes: np.ndarray, cells: np.ndarray) -> float:  # both (n,)
    """The stretch that makes 90 % intervals hold at a cell that was never read, estimated from few calibration cells.

    Two factors: what holds 90 % of all these targets, and what a new cell needs beyond it. The second is measured by
    leaving out one cell at a time: how much larger are its targets than the stretch of the other cells allows?
    """
    met = np.unique(cells)
    if len(sizes) < FEWEST or len(met) < 2:
        return 1.0
    beyond = np.concatenate([sizes[cells == cell] / _asked(sizes[cells != cell]) for cell in met])
    return _asked(sizes) * max(1.0, _asked(beyond))


def _asked(sizes: np.ndarray) -> float:  # (n,)
    """By how much 90 % of them surpass those of a standard normal."""
    return conformal_quantile(sizes, 0.9) / NormalDist().inv_cdf(0.95)


def trajectory_latents(source: Source, mask: Tensor, z: Tensor) -> list[TrajectoryLatents]:  # (B, C, H, W) twice
    """The latents of a batch of one source at several leads, by variable."""
    found = []
    for c in range(mask.shape[1]):
        b, y, x = mask[:, c].nonzero(as_tuple=True)
        places = torch.stack([source.lead[b].long(), y, x], 1)
        known = source.frames.mask[0, :, c].nonzero() * torch.tensor([-1, 1, 1])
        found.append(TrajectoryLatents(z[b, c, y, x], places, known))
    return found


def pinned(source: Source) -> Tensor:  # (B, C, H, W) bool
    """The cells whose value at the target's time was read."""
    return source.read_then().mask
