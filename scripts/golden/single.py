"""single_file_names.txt: tiny-sd1's tensors and their names in an original (LDM) checkpoint file.

scripts/to_single_file.py has the rules; they are held against diffusers' own conversion, the other way round, for
tiny-sd1 and for the names of full-size SD1.5.
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch
from diffusers.loaders import single_file_utils as diffusers_names
from safetensors.torch import load_file

import make_random_sd15 as sd15
import tiny
import to_single_file
from common import GOLDEN

FILE = GOLDEN / "single_file_names.txt"


def restore(checkpoint, unet_config, vae_config):
    """Checkpoint -> {part: tensors by diffusers' names}, by diffusers."""
    unet_config = {"class_embed_type": None, "addition_embed_type": None, **unet_config}
    return {
        "unet": diffusers_names.convert_ldm_unet_checkpoint(dict(checkpoint), unet_config),
        "vae": diffusers_names.convert_ldm_vae_checkpoint(dict(checkpoint), vae_config),
        "text_encoder": diffusers_names.convert_ldm_clip_checkpoint(dict(checkpoint)),
    }


def check_tiny(checkpoint):
    parts = restore(checkpoint, tiny.UNET, tiny.VAE)
    for part, got in parts.items():
        want = load_file(tiny.FOLDER / part / to_single_file.FILES[part])
        if set(want) != set(got) or not all(torch.equal(want[name], got[name]) for name in want):
            raise SystemExit(f"{part}: diffusers reads the checkpoint's names otherwise")


def check_full():
    """Each tensor of full-size SD1.5 is a number, so that only names are compared."""
    unet, vae, _ = sd15.blank_modules()
    for part, module, config, rename in (
        ("unet", unet, sd15.UNET, to_single_file.unet_name),
        ("vae", vae, sd15.VAE, to_single_file.vae_name),
    ):
        want = {name: torch.full((1, 1, 1, 1), float(index)) for index, name in enumerate(module.state_dict())}
        got = restore({rename(name, config): value for name, value in want.items()}, sd15.UNET, sd15.VAE)[part]
        if set(got) != set(want) or any(float(got[name].flatten()[0]) != float(want[name]) for name in want):
            raise SystemExit(f"SD1.5 {part}: diffusers reads the checkpoint's names otherwise")


def main():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "tiny.safetensors"
        to_single_file.write(tiny.FOLDER, file)
        check_tiny(load_file(file))
    check_full()
    FILE.write_text("".join(f"{name}\t{new}\n" for name, new in to_single_file.name_pairs(tiny.FOLDER)))
    print(f"{FILE.stat().st_size:9d}  {FILE.name}")


if __name__ == "__main__":
    main()
