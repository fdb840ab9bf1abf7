"""tiny-vaes/ and vae_kinds.safetensors: autoencoders of SDXL's, the x4 upscaler's and TAESD's kind by diffusers.

Random weights, exact in float16. The scaling factor is not applied; TAESD's latents are stored unscaled, as kiln has
them between nodes, and are scaled before diffusers sees them. Pictures are NHWC.
"""

import torch

from common import GOLDEN, errors, nhwc, randn, randomise, save, save_json, versions
from vae import picture

FOLDER = GOLDEN / "tiny-vaes"
F64 = torch.float64
KL = {
    "_class_name": "AutoencoderKL",
    "act_fn": "silu",
    "in_channels": 3,
    "latent_channels": 4,
    "layers_per_block": 2,
    "norm_num_groups": 4,
    "out_channels": 3,
    "sample_size": 64,
}
TINY = {
    "_class_name": "AutoencoderTiny",
    "act_fn": "relu",
    "decoder_block_out_channels": [8] * 4,
    "encoder_block_out_channels": [8] * 4,
    "force_upcast": False,
    "in_channels": 3,
    "latent_magnitude": 3,
    "latent_shift": 0.5,
    "num_decoder_blocks": [3, 3, 3, 1],
    "num_encoder_blocks": [1, 3, 3, 3],
    "out_channels": 3,
    "scaling_factor": 1.0,
    "upsampling_scaling_factor": 2,
}


def kl(widths, scale, **more):
    return {
        **KL,
        "block_out_channels": widths,
        "down_block_types": ["DownEncoderBlock2D"] * len(widths),
        "up_block_types": ["UpDecoderBlock2D"] * len(widths),
        "scaling_factor": scale,
        **more,
    }


# name, config, what a latent is multiplied by before the network, and what is taken off it before that
MODELS = [
    ("sdxl", kl([8, 8, 12, 12], 0.13025, force_upcast=True), 1, 0),
    ("x4", kl([8, 8, 12], 0.08333), 1, 0),
    ("taesdxl", {**TINY, "latent_channels": 4}, 0.13025, 0),
    ("taesd3", {**TINY, "latent_channels": 16}, 1.5305, 0.0609),
]


def build(config):
    import diffusers

    arguments = {key: value for key, value in config.items() if not key.startswith("_")}
    return getattr(diffusers, config["_class_name"])(**arguments)


def write_model(name, config):
    model = randomise(build(config), seed=7, dtype=torch.float16)
    save_json(FOLDER / name / "config.json", config)
    tensors = {key: value.to(torch.float16) for key, value in model.state_dict().items()}
    save(FOLDER / name / "diffusion_pytorch_model.safetensors", tensors)
    return model


@torch.inference_mode()
def main():
    tensors, noise = {}, {}
    for name, config, scale, shift in MODELS:
        single = write_model(name, config)
        model = build(config).eval().to(F64)
        model.load_state_dict({key: value.to(F64) for key, value in single.state_dict().items()})
        image, latent = picture(f"kinds.{name}", 40, 24), randn(f"kinds.{name}.latent", 2, config["latent_channels"], 3, 5)
        latent = latent / scale + shift if scale != 1 else 2 * latent

        def encode(vae, x):
            found = vae.encode(x)
            return found.latent_dist.mean if hasattr(found, "latent_dist") else found.latents / scale + shift

        def decode(vae, x):
            return vae.decode((x - shift) * scale).sample

        mean, out = encode(model, image.to(F64)), decode(model, latent.to(F64))
        noise[name] = {"encode": errors(encode(single, image), mean), "decode": errors(decode(single, latent), out)}
        tensors.update({f"{name}.image": image, f"{name}.mean": mean, f"{name}.latent": latent, f"{name}.out": out})
    what = (
        "tiny-vaes/NAME by diffusers: NAME.image [1,h,w,3] in [-1,1] -> NAME.mean [1,h/f,w/f,C], unscaled; NAME.latent [2,h,w,C], "
        "unscaled -> NAME.out [2,fh,fw,3], not clamped. f is 8, of x4 4"
    )
    meta = {**versions(), "layout": "NHWC", "what": what, "noise": noise}
    save(GOLDEN / "vae_kinds.safetensors", {name: nhwc(value) for name, value in tensors.items()}, meta)


if __name__ == "__main__":
    main()
