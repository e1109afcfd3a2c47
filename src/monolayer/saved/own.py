"""A folder that `save` of a model of monolayer wrote: a memorizer, or an approximator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from monolayer.checker.format import READOUTS
from monolayer.checker.stored import OwnFiles, examined, files_of_model
from monolayer.data.folder import MODEL, FolderKind, OpenFolder, read_together
from monolayer.data.form import SourceForm
from monolayer.data.layout import Manner
from monolayer.data.model_kinds import kind_of
from monolayer.data.text import Script
from monolayer.errors import DataError, ModelFileError
from monolayer.saved.asking import Asking, Wanted
from monolayer.saved.saved import Inspected, Saved, Sealed

if TYPE_CHECKING:
    import torch

    from monolayer.checker.certificate import Certificate, Claims
    from monolayer.checker.labelled import Load
    from monolayer.checker.locating.location import Location
    from monolayer.checker.network import Stored
    from monolayer.data import Sequences
    from monolayer.model.monolayer import Monolayer
    from monolayer.model.uniform import Uniform
    from monolayer.table import Progress


@dataclass(eq=False)
class Own(Saved):
    """A model in monolayer's own format (docs/format.md)."""

    path: Path
    files: OwnFiles | None
    """The contents of its files, until they are turned into a model: weights need not be in memory twice."""

    @classmethod
    def recognizes(cls, config: object) -> bool:
        """Every folder that no other kind recognizes: reading it says what is wrong."""
        return True

    @classmethod
    def read(cls, opened: OpenFolder) -> Own:
        """The contents of the files of an open folder."""
        return cls(opened.path, files_of_model(opened))

    def _taken(self) -> OwnFiles:
        """The contents of the files, which are then forgotten here; read again if somebody took them before."""
        files, self.files = self.files, None
        return read_together(self.path, files_of_model) if files is None else files

    @cached_property
    def stored(self) -> Stored:
        """The model as the checker reads it."""
        contents, certificate = self._taken()
        return replace(self._examined(contents), certificate=certificate)

    def _examined(self, contents: dict[str, Any]) -> Stored:
        """The model in these files, whose digests are compared; errors name the folder."""
        try:
            return examined(contents)
        except ModelFileError as error:
            raise ModelFileError(f"{self.path}: {error}") from None

    @property
    def manner(self) -> Manner:
        """Strings are split, labels belong and files are read as in the data that it was built from."""
        names, config = self.stored.vocabulary, self.stored.config
        form = SourceForm.from_json(config.get("form"))
        return Manner(None if names is None else names.cuts, config.get("per"), form=form)

    @property
    def sealed(self) -> Sealed:
        """`config.json`, and the files that it names; their digests were compared when they were read."""
        contents, _ = self._taken()
        config = self._examined(contents).config
        return Sealed(config["digest"], Sealed.of("", {"config.json": contents["config.json"]}).files | config["files"])

    @property
    def next_token(self) -> bool:
        """Whether the label of each token is the next token."""
        return bool(self.stored.config.get("next_token"))

    @property
    def script(self) -> Script | None:
        """How it recites a text."""
        described = self.stored.config.get("script")
        return None if described is None else Script(**described)

    def takes(self, X: object) -> bool:
        """An approximator is compared with its function; a memorizer refuses one."""
        return callable(X) or not kind_of(self.stored.config).has_readout or bool(self.stored.raw)

    def check(self, claims: Claims) -> None:
        """The claims that can be made depend on the readout."""
        from monolayer.checker.check import check_claims

        check_claims(claims, self.stored)

    def prove(self, data: Any, claims: Claims, report: Progress) -> Certificate:
        """The certificate, with a note on the one that lies in the folder."""
        from monolayer.checker.check import compared_with_old, judge_own

        report("checking every label", 0.0)
        return compared_with_old(self.stored.certificate, judge_own(self.stored, data, claims))

    @property
    def in_parts(self) -> bool:
        """Models of ids on a line are judged part by part."""
        return self.stored.config.get("tokens") == "ids" and READOUTS[self.stored.config["readout"]].in_parts

    def judge_parts(self, parts: list[Load]) -> Certificate:
        """The certificate for data in several files."""
        from monolayer.checker.check import compared_with_old, judge_data

        return compared_with_old(self.stored.certificate, judge_data(self.stored, parts))

    def check_locates(self) -> None:
        """A network for the maximum norm holds a function."""
        if not kind_of(self.stored.config).has_readout:
            raise DataError(
                "a network for the maximum norm interpolates between knots and holds no facts: give locate a model "
                "that memorizes, or a stock folder"
            )

    def locate(self, data: Sequences) -> Location:
        """The neurons and rows that hold the facts."""
        from monolayer.checker.locating.locate import locate_own

        return locate_own(self.stored, data)

    def load(self, device: torch.device | str | None = None) -> Monolayer | Uniform:
        """The network as a module of PyTorch."""
        from monolayer.model.load import model_in

        return model_in(self.path, self._taken().contents, device=device)

    def light(self, wanted: Wanted) -> Any:
        """A memorizer whose answers are read from its files, as far as they are proved; the network for others."""
        from monolayer.saved.light import LightMemorizer

        contents, _ = files = self._taken()
        try:
            stored = examined(contents)
        except ModelFileError:  # whatever loads the network says what is wrong, in its own words
            stored = None
        if stored is None or not kind_of(stored.config).holds_facts or not LightMemorizer.takes(stored):
            self.files = files
            return self.load()
        return LightMemorizer(stored, partial(_network, self.path, contents), seen_only=wanted.strict is not False)

    def asking(self, model: Any, wanted: Wanted) -> Asking:
        """Through the shortcut or the dense pass; keys of a table are recognized by their fingerprints."""
        from monolayer.model.asked import unanswerable
        from monolayer.model.nearest import nearest_key
        from monolayer.model.unknown import REFUSE, tells_unknown

        path: Literal["dense", "auto"] = "dense" if wanted.dense else "auto"
        if not kind_of({"kind": model.card.kind}).holds_facts and model.card.grid is None:  # for the maximum norm
            if wanted.told:
                model.check_strict()
            return Asking(lambda _: {}, partial(model.labels, path=path))
        seen = None
        if tells_unknown(model.card.fingerprint, wanted.strict, REFUSE if wanted.unknown is None else wanted.unknown):
            seen = lambda data, _: model.known(data)  # noqa: E731
        return Asking(
            partial(unanswerable, model, suggest=True),
            partial(model.labels, path=path),
            seen,
            partial(nearest_key, model),
        )

    def inspected(self) -> Inspected:
        """What the weights themselves show, and what the builder measured."""
        from monolayer.saved.described import describe

        model = self.load()
        return Inspected(describe(model), model.summary, partial(_plot, model))

    @property
    def replaces(self) -> FolderKind:
        """Other models of monolayer."""
        return MODEL

    def monolayer(self, verb: str) -> Monolayer:
        """The network, which has steps or half-spaces."""
        from monolayer.model.load import load_monolayer

        return load_monolayer(self.load())


def _network(path: Path, contents: dict[str, Any]) -> Monolayer | Uniform:
    """The network in the contents of its files."""
    from monolayer.model.load import model_in

    return model_in(path, contents)


def _plot(model: Monolayer | Uniform, token: str | None) -> Any:
    """A picture of the steps of a model, or of the half-spaces of a token; an error for a network without steps."""
    from monolayer.model.uniform import Uniform

    if isinstance(model, Uniform):
        raise DataError("--plot draws steps or half-spaces; an approximator is drawn by approximate --plot")
    return model.plot(token=token)
