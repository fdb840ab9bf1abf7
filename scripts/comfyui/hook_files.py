"""The checkpoint that `make parity-comfyui` draws hooks with: the cut-down SD1.5 with other matrices.

    models/checkpoints/hooked.safetensors   every second matrix of denoiser and text encoder changed by half its size
"""

import common

NAME, BASE = "checkpoints/hooked.safetensors", "checkpoints/parity.safetensors"


def make(models, prompts):
    """The file, if these prompts want it and it is not there."""
    from safetensors.torch import load_file

    if (models / NAME).exists() or not any(node["inputs"].get("ckpt_name") == "hooked.safetensors" for prompt in prompts.values() for node in prompt.values()):
        return
    tensors, matrices = load_file(models / BASE), 0
    for name, tensor in sorted(tensors.items()):
        if tensor.dim() < 2 or not name.startswith(("model.diffusion_model.", "cond_stage_model.")) or not tensor.is_floating_point():
            continue
        matrices += 1
        if matrices % 2:
            change = common.randn("hooked." + name, *tensor.shape) * 0.5 * tensor.float().std()
            tensors[name] = (tensor.float() + change).to(tensor.dtype)
    common.save(models / NAME, tensors, {"what": "another cut-down SD1.5"})
