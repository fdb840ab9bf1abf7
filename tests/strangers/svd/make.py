"""Makes the tiny random Stable Video Diffusion of this folder and what diffusers and transformers say of it: python make.py [COMFYUI]

Needs torch, diffusers, transformers and safetensors; the test needs none of them. Numbers are computed in float64, but for the angles of the sinusoids, which
diffusers rounds to float32. Weights are numbers of 8 bits. names.txt says what each tensor is called in a single file; with the folder of a ComfyUI
checkout the names are held against those of its modules.
"""

import json
import sys
import unittest.mock as mock
from math import log
from pathlib import Path

import diffusers.models.embeddings
import torch
from diffusers import AutoencoderKLTemporalDecoder, EulerDiscreteScheduler, UNetSpatioTemporalConditionModel
from safetensors.torch import save_file
from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "goldens"))
from in_float64 import in_float64  # noqa: E402

UNET = dict(
    sample_size=16, in_channels=8, out_channels=4, block_out_channels=(32, 32), layers_per_block=1, cross_attention_dim=24, num_attention_heads=(2, 4),
    down_block_types=("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"), num_frames=4, addition_time_embed_dim=16,
    up_block_types=("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"), projection_class_embeddings_input_dim=48,
)
VAE = dict(
    in_channels=3, out_channels=3, latent_channels=4, block_out_channels=(32, 32), layers_per_block=2, scaling_factor=0.18215,
    down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
)
VISION = dict(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8, projection_dim=24, hidden_act="gelu",
)
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
SCALE = 0.18215
GROUPS = 8
FRAMES, HEIGHT, WIDTH = 4, 24, 32
NORMS = ("norm", "layernorm", "layrnorm")


def with_groups(model):
    """diffusers has norms of 32 groups in every size. Of one channel each they would take away what a time adds to a channel."""
    for module in model.modules():
        if isinstance(module, torch.nn.GroupNorm):
            module.num_groups = GROUPS
    return model.eval()


def fill(model, seed):
    g = torch.Generator().manual_seed(seed)
    weights = {}
    for name, p in model.named_parameters():
        r = torch.randn(p.shape, generator=g, dtype=torch.float32)
        if name.endswith("mix_factor"):
            r = 0.7 * r
        elif p.dim() == 1:
            norm = any(n in name.split(".")[-2] for n in NORMS) and name.endswith("weight")
            r = 1 + 0.2 * r if norm else 0.1 * r
        elif "embedding.weight" in name:
            r = 0.5 * r
        else:
            # What is added to a stream is smaller than that, or rounding to bf16 grows from block to block.
            parts = {"conv2": 0.2, "to_out.0": 0.2, "net.2": 0.2, "proj_out": 0.2, "to_q": 0.6, "to_k": 0.6, "conv_shortcut": 1, "conv_out": 1}
            gain = next((gain for part, gain in parts.items() if name.endswith(f"{part}.weight")), 0.8)
            r = gain * r / r[0].numel() ** 0.5
        weights[name] = r.to(torch.float8_e4m3fn).contiguous()
        p.data.copy_(weights[name].float())
    return weights


def sinusoid(t, width, flip_sin_to_cos, downscale_freq_shift, scale=1, max_period=10000):
    f = torch.exp(-log(max_period) * torch.arange(width // 2, dtype=torch.float64) / (width // 2 - downscale_freq_shift))
    angle = (t.type(torch.float32)[:, None] * f.type(torch.float32)).double() * scale
    parts = [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts[::-1] if flip_sin_to_cos else parts, -1)


def first(x):
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


# ---- the pipeline: encoder, sampling with a guidance for each frame, decoder


def embeds_of(vision, picture):
    mean, std = torch.tensor(MEAN, dtype=torch.float32).double(), torch.tensor(STD, dtype=torch.float32).double()
    return vision(first((picture - mean) / std)).image_embeds


def latent_of(vae, picture, level=0.0, seed=0):
    """The middle of a square picture, HEIGHT rows of it."""
    at = (picture.shape[1] - HEIGHT) // 2
    x = first(picture[:, at : at + HEIGHT]) * 2 - 1
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32).double()
    return vae.encode(x + level * noise).latent_dist.mode()


def sample(unet, embeds, latent, steps, seed, low, high, frames=FRAMES, fps=6, bucket=127, level=0.0, dtype=torch.float64):
    scheduler = EulerDiscreteScheduler(
        prediction_type="v_prediction", timestep_type="continuous", timestep_spacing="leading", use_karras_sigmas=True, sigma_min=0.002, sigma_max=700.0,
    )
    scheduler.set_timesteps(steps)
    shape = (1, frames, 4, *latent.shape[-2:])
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32).to(dtype) * (1 + 700.0**2) ** 0.5
    scale = torch.linspace(low, high, frames, dtype=dtype)[None, :, None, None, None]
    images = torch.cat([torch.zeros_like(latent), latent])[:, None].expand(-1, frames, -1, -1, -1)
    tokens = torch.cat([torch.zeros_like(embeds), embeds])[:, None]
    ids = torch.tensor([[fps - 1, bucket, level]] * 2, dtype=torch.float32)
    for sigma, after in zip(scheduler.sigmas.double(), scheduler.sigmas.double()[1:]):
        given = torch.cat([torch.cat([x, x]) / (sigma**2 + 1) ** 0.5, images], 2)
        v = unet(given, 0.25 * torch.log(sigma), encoder_hidden_states=tokens, added_time_ids=ids).sample
        v = v[:1] + scale * (v[1:] - v[:1])
        denoised = x / (sigma**2 + 1) - sigma / (sigma**2 + 1) ** 0.5 * v
        x = x + (x - denoised) / sigma * (after - sigma)
    return x[0] / SCALE


def decode(vae, x, chunk):
    parts = [vae.decode(part, num_frames=part.shape[0]).sample for part in x.split(chunk)]
    return last((torch.cat(parts) / 2 + 0.5).clamp(0, 1))


# ---- the names of a single file

RES = {"norm1": "in_layers.0", "conv1": "in_layers.2", "time_emb_proj": "emb_layers.1", "norm2": "out_layers.0", "conv2": "out_layers.3",
       "conv_shortcut": "skip_connection"}  # fmt: skip


def swapped(rest, table):
    head, _, end = rest.rpartition(".")
    return f"{table[head]}.{end}"


def resnet(rest):
    part, _, rest = rest.partition(".")
    return {"spatial_res_block": lambda: swapped(rest, RES), "temporal_res_block": lambda: "time_stack." + swapped(rest, RES)}.get(
        part, lambda: f"{part}.{rest}"
    )()


def transformer(rest):
    return (rest.replace("temporal_transformer_blocks.", "time_stack.").replace("time_pos_embed.linear_1", "time_pos_embed.0")
            .replace("time_pos_embed.linear_2", "time_pos_embed.2"))  # fmt: skip


def unet_name(name, layers=1, levels=2):
    top = {"conv_in": "input_blocks.0.0", "time_embedding.linear_1": "time_embed.0", "time_embedding.linear_2": "time_embed.2", "conv_norm_out": "out.0",
           "add_embedding.linear_1": "label_emb.0.0", "add_embedding.linear_2": "label_emb.0.2", "conv_out": "out.2"}  # fmt: skip
    head, _, end = name.rpartition(".")
    if head in top:
        return f"{top[head]}.{end}"
    words = name.split(".")
    if words[0] == "mid_block":
        kind, i, rest = words[1], int(words[2]), ".".join(words[3:])
        return f"middle_block.{2 * i if kind == 'resnets' else 1}." + (resnet(rest) if kind == "resnets" else transformer(rest))
    level, kind, i, rest = int(words[1]), words[2], int(words[3]), ".".join(words[4:])
    if words[0] == "down_blocks":
        at = 1 + level * (layers + 1) + i
        if kind == "downsamplers":
            return f"input_blocks.{(level + 1) * (layers + 1)}.0.op.{words[-1]}"
        return f"input_blocks.{at}." + (f"0.{resnet(rest)}" if kind == "resnets" else f"1.{transformer(rest)}")
    at = level * (layers + 1) + i
    if kind == "upsamplers":
        attended = UNET["up_block_types"][level].startswith("Cross")
        return f"output_blocks.{(level + 1) * (layers + 1) - 1}.{2 if attended else 1}.conv.{words[-1]}"
    return f"output_blocks.{at}." + (f"0.{resnet(rest)}" if kind == "resnets" else f"1.{transformer(rest)}")


def vae_name(name, levels=2):
    attention = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}
    words = name.split(".")
    if len(words) < 4:
        return name.replace("conv_norm_out", "norm_out").replace("decoder.time_conv_out", "decoder.conv_out.time_mix_conv")
    side, block = words[:2]
    if block == "mid_block":
        kind, i, rest = words[2], int(words[3]), ".".join(words[4:])
        head = f"{side}.mid.block_{i + 1}." if kind == "resnets" else f"{side}.mid.attn_1."
        if kind == "attentions":
            return head + swapped(rest, attention)
    else:
        level, kind, i, rest = int(words[2]), words[3], int(words[4]), ".".join(words[5:])
        place = f"{side}.down.{level}" if block == "down_blocks" else f"{side}.up.{levels - 1 - level}"
        if kind == "downsamplers":
            return f"{place}.downsample.{rest}"
        if kind == "upsamplers":
            return f"{place}.upsample.{rest}"
        head = f"{place}.block.{i}."
    if rest.startswith("temporal_res_block."):
        return head + "time_stack." + swapped(rest.partition(".")[2], RES)
    return head + rest.replace("spatial_res_block.", "").replace("time_mixer.", "").replace("conv_shortcut", "nin_shortcut")


def vision_names(names):
    """Of the file's: each as the list of ours that it is made of."""
    top = {"embeddings.class_embedding": "class_embedding", "embeddings.patch_embedding.weight": "conv1.weight",
           "embeddings.position_embedding.weight": "positional_embedding"}  # fmt: skip
    parts = {"layer_norm1": "ln_1", "layer_norm2": "ln_2", "self_attn.out_proj": "attn.out_proj", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}
    found = {}
    for name in names:
        short = name.replace("vision_model.", "")
        if name == "visual_projection.weight":  # which is turned
            found["proj"] = [f"^{name}"]
        elif short in top:
            found[top[short]] = [name]
        elif ".self_attn.q_proj." in short:
            layer, end = short.split(".")[2], short.split(".")[-1]
            found[f"transformer.resblocks.{layer}.attn.in_proj_{end}"] = [name.replace("q_proj", f"{k}_proj") for k in "qkv"]
        elif ".k_proj." in short or ".v_proj." in short:
            continue
        elif short.startswith("encoder.layers."):
            words = short.split(".")
            found[f"transformer.resblocks.{words[2]}." + swapped(".".join(words[3:]), parts)] = [name]
        else:
            found[short.replace("pre_layrnorm", "ln_pre").replace("post_layernorm", "ln_post")] = [name]
    return found


def held_against_comfyui(folder, unet_names, vae_names):
    sys.argv = sys.argv[:1] + ["--cpu"]
    sys.path.insert(0, folder)
    import comfy.options

    comfy.options.enable_args_parsing()
    import comfy.ops
    from comfy.ldm.modules.diffusionmodules.model import Encoder
    from comfy.ldm.modules.diffusionmodules.openaimodel import UNetModel
    from comfy.ldm.modules.temporal_ae import VideoDecoder

    unet = UNetModel(
        image_size=32, in_channels=8, out_channels=4, model_channels=32, num_res_blocks=[1, 1], channel_mult=(1, 1), num_head_channels=16, num_heads=-1,
        use_spatial_transformer=True, use_linear_in_transformer=True, transformer_depth=[1, 0], transformer_depth_output=[1, 1, 0, 0],
        transformer_depth_middle=1, context_dim=24, adm_in_channels=48, num_classes="sequential", use_temporal_resblock=True, use_temporal_attention=True,
        extra_ff_mix_layer=True, use_spatial_context=True, merge_strategy="learned_with_images", video_kernel_size=[3, 1, 1], legacy=False,
        operations=comfy.ops.manual_cast,
    )
    assert set(unet.state_dict()) == unet_names, sorted(set(unet.state_dict()) ^ unet_names)
    sizes = dict(double_z=True, z_channels=4, resolution=32, in_channels=3, out_ch=3, ch=32, ch_mult=[1, 1], num_res_blocks=2, attn_resolutions=[], dropout=0.0)
    theirs = {f"encoder.{n}" for n in Encoder(**sizes).state_dict()}
    theirs |= {f"decoder.{n}" for n in VideoDecoder(**sizes, video_kernel_size=[3, 1, 1], alpha=0.0).state_dict()}
    assert theirs == {n for n in vae_names if not n.startswith("quant_conv")}, sorted(theirs ^ vae_names)
    print("names are those of ComfyUI's modules")


def write_names(parts):
    lines = []
    unet = {name: unet_name(name) for name in parts["unet"]}
    vae = {name: vae_name(name) for name in parts["vae"]}
    lines += [f"model.diffusion_model.{to} unet/{name}" for name, to in unet.items()]
    is_conv = lambda to: ".attn_1." in to and to.endswith(".weight") and ".norm." not in to  # there; diffusers has matrices
    lines += [f"first_stage_model.{to} {':' if is_conv(to) else ''}vae/{name}" for name, to in vae.items()]
    for to, names in vision_names(parts["image_encoder"]).items():
        ours = [f"image_encoder/{name}".replace("image_encoder/^", "^image_encoder/") for name in names]
        lines.append(" ".join([f"conditioner.embedders.0.open_clip.model.visual.{to}", *ours]))
    (HERE / "names.txt").write_text("\n".join(lines) + "\n")
    if len(sys.argv) > 1:
        held_against_comfyui(sys.argv[1], set(unet.values()), set(vae.values()))


def save(models):
    root = HERE / "models/checkpoints/tiny"
    parts = {}
    for seed, (folder, model, file) in enumerate(models):
        (root / folder).mkdir(parents=True, exist_ok=True)
        parts[folder] = fill(model, 71 + seed)
        save_file(parts[folder], root / folder / file)
        config = {k: v for k, v in dict(model.config if folder != "image_encoder" else VISION).items() if not k.startswith("_") or k == "_class_name"}
        if folder == "image_encoder":
            config |= {"architectures": ["CLIPVisionModelWithProjection"], "model_type": "clip_vision_model", "num_channels": 3, "layer_norm_eps": 1e-5}
        else:
            config |= {"_class_name": type(model).__name__, "norm_num_groups": GROUPS}
        (root / folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (root / "model_index.json").write_text(json.dumps({"_class_name": "StableVideoDiffusionPipeline"}) + "\n")
    write_names(parts)


@torch.inference_mode()
def main():
    unet, vae = with_groups(UNetSpatioTemporalConditionModel(**UNET)), with_groups(AutoencoderKLTemporalDecoder(**VAE))
    vision = CLIPVisionModelWithProjection(CLIPVisionConfig(**VISION)).eval()
    file = "diffusion_pytorch_model.safetensors"
    save([("unet", unet, file), ("vae", vae, file), ("image_encoder", vision, "model.safetensors")])
    y, x = torch.meshgrid(torch.linspace(0, 1, 32), torch.linspace(0, 1, 32), indexing="ij")
    picture = torch.stack([torch.sin(5 * y + 2 * x), torch.cos(7 * x) * y, torch.sin(9 * y * x)], -1)[None] * 0.4 + 0.5
    picture = (picture * 255).round() / 255  # a picture of 8 bits: encoders' nodes round to that
    goldens = {"picture": picture, "pictures": torch.cat([picture, picture]), "short": torch.zeros(3, 12, 16, 4)}
    with in_float64(), mock.patch.object(diffusers.models.embeddings, "get_timestep_embedding", sinusoid):
        unet.double(), vae.double(), vision.double()
        seen = picture.double()
        embeds, latent = embeds_of(vision, seen), latent_of(vae, seen)
        goldens["golden.embeds"], goldens["golden.latent"] = embeds, last(latent)
        whole = sample(unet, embeds, latent, 5, 5, 1.0, 3.0)
        goldens["golden.one"] = last(sample(unet, embeds, latent, 1, 5, 1.0, 1.5))
        goldens["golden.whole"] = last(whole)
        goldens["golden.even"] = last(sample(unet, embeds, latent, 5, 5, 3.0, 3.0))
        shaken = latent_of(vae, seen, 0.1, 9)
        goldens["golden.shaken"] = last(sample(unet, embeds, shaken, 2, 8, 1.5, 2.5, frames=3, fps=12, bucket=40, level=0.1))
        goldens["golden.frames"] = decode(vae, whole, FRAMES)
        goldens["golden.chunks"] = decode(vae, whole, 3)
        for block in [*unet.down_blocks, *unet.up_blocks]:  # diffusers has 1e-6 in most of them, the release 1e-5 in all
            for resnet_ in block.resnets:
                for part in (resnet_.spatial_res_block, resnet_.temporal_res_block):
                    part.norm1.eps = part.norm2.eps = 1e-5
        goldens["golden.single"] = last(sample(unet, embeds, latent, 2, 5, 1.0, 3.0))
    error = lambda a, b: float((goldens[a] - goldens[b]).abs().max() / goldens[b].abs().max())
    print(f"guidance by frame matters by {error('golden.even', 'golden.whole'):.1e}, chunks by {error('golden.chunks', 'golden.frames'):.1e}")
    fresh = with_groups(UNetSpatioTemporalConditionModel(**UNET)), with_groups(AutoencoderKLTemporalDecoder(**VAE))
    fill(fresh[0], 71), fill(fresh[1], 72)
    own = last(sample(fresh[0], embeds.float(), latent.float(), 5, 5, 1.0, 3.0, dtype=torch.float32))
    seen = decode(fresh[1], first(own), FRAMES)
    relative = lambda x, name: float((x - goldens[name]).abs().max() / goldens[name].abs().max())
    print(f"diffusers in float32: latents {relative(own, 'golden.whole'):.1e}, frames {relative(seen, 'golden.frames'):.1e}")
    save_file({name: value.to(torch.float32).contiguous() for name, value in goldens.items()}, HERE / "goldens.safetensors")
    for path in sorted(HERE.rglob("*.safetensors")):
        path.chmod(0o644)
        print(path.relative_to(HERE), path.stat().st_size, "bytes; largest golden", max(float(v.abs().max()) for v in goldens.values()))


if __name__ == "__main__":
    main()
