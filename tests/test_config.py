"""Configuration: presets are valid, overrides win, mistakes are one line that names the culprit."""

import pytest

from solidfield.config import PRESETS, load_config
from solidfield.errors import SolidError


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_valid(preset):
    assert load_config(preset).model.name


def test_overrides_win_over_the_preset_and_the_preset_over_defaults(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[train]\nsteps = 7\nlr = 0.5\n")
    config = load_config(file, ("train.steps=9", "model.name=kriging", "scenario.leads=[0, 1]"))
    assert (config.train.steps, config.train.lr, config.train.batch) == (9, 0.5, 64)
    assert config.model.name == "kriging"
    assert config.scenario.leads == (0, 1)


@pytest.mark.parametrize(
    ("override", "names"),
    [
        ("train.stpes=9", "train.stpes"),
        ("trian.steps=9", "trian"),
        ("train.steps=many", "train.steps"),
        ("train.steps=0", "train.steps"),
        ("scenario.overlap=2", "scenario.overlap"),
        ("steps=9", "table.key=value"),
        ("train.steps", "table.key=value"),
    ],
)
def test_a_mistake_is_named_in_one_line(override, names):
    with pytest.raises(SolidError, match=names.replace(".", r"\.")) as error:
        load_config("smoke", (override,))
    assert "\n" not in str(error.value)


def test_an_unknown_preset_and_broken_toml_are_named(tmp_path):
    with pytest.raises(SolidError, match="lapotp"):
        load_config("lapotp")
    broken = tmp_path / "broken.toml"
    broken.write_text("[train\n")
    with pytest.raises(SolidError, match=r"broken\.toml"):
        load_config(broken)
