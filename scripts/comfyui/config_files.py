"""models/configs/{v,skip}.yaml: configurations of the cut-down SD1.5, as the original code has them."""

TEXT = """model:
  target: ldm.models.diffusion.ddpm.LatentDiffusion
  params:
    {parameterization}timesteps: 1000
    unet_config:
      target: ldm.modules.diffusionmodules.openaimodel.UNetModel
    first_stage_config:
      target: ldm.models.autoencoder.AutoencoderKL
    cond_stage_config:
      target: ldm.modules.encoders.modules.FrozenCLIPEmbedder
      {params}
"""


def make(models, prompts):
    """Both, if these prompts want one."""
    if not any("config_name" in node["inputs"] for prompt in prompts.values() for node in prompt.values()):
        return
    (models / "configs").mkdir(parents=True, exist_ok=True)
    (models / "configs" / "v.yaml").write_text(TEXT.format(parameterization='parameterization: "v"\n    ', params=""))
    (models / "configs" / "skip.yaml").write_text(TEXT.format(parameterization="", params='params: {layer: "hidden", layer_idx: -2}'))
