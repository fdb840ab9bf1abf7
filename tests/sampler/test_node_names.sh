#!/usr/bin/env bash
# test_node_names.sh - the sampling nodes as a workflow file meets them: names of nodes, inputs, parameters and outputs, types, defaults,
# ranges and choices. The other tests call the nodes' rows and would not see a name misspelt or a default moved.
#
# A line of the table: NODE, then INPUT:TYPE (INPUT?:TYPE may be left out), PARAMETER=DEFAULT[LEAST..MOST],
# PARAMETER=DEFAULT(LEAST..MOST] where LEAST itself is not taken, PARAMETER=DEFAULT{CHOICE,...} (PARAMETER=* is not looked into), >OUTPUT:TYPE. ComfyUI's nodes have these; what kiln has beyond them is in `own`.
set -u
kiln=$KILN_BUILD/kiln
cd "$KILN_ROOT" || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
status=0
own="noise_source cuda_blocks options timestep"

cat >"$work/wanted" <<'T'
KSampler model:MODEL seed=0[0..18446744073709551615] steps=20[1..10000] cfg=8[0..100] sampler_name=* scheduler=* positive:CONDITIONING negative:CONDITIONING latent_image:LATENT denoise=1[0..1] >LATENT:LATENT
KSamplerAdvanced model:MODEL add_noise=enable{enable,disable} noise_seed=0[0..18446744073709551615] steps=20[1..10000] cfg=8[0..100] sampler_name=* scheduler=* positive:CONDITIONING negative:CONDITIONING latent_image:LATENT start_at_step=0[0..10000] end_at_step=10000[0..10000] return_with_leftover_noise=disable{enable,disable} >LATENT:LATENT
SamplerCustom model:MODEL add_noise=true noise_seed=0[0..18446744073709551615] cfg=8[0..100] positive:CONDITIONING negative:CONDITIONING sampler:SAMPLER sigmas:SIGMAS latent_image:LATENT >output:LATENT >denoised_output:LATENT
SamplerCustomAdvanced noise:NOISE guider:GUIDER sampler:SAMPLER sigmas:SIGMAS latent_image:LATENT >output:LATENT >denoised_output:LATENT
KSamplerSelect sampler_name=* >SAMPLER:SAMPLER
RandomNoise noise_seed=0[0..18446744073709551615] >NOISE:NOISE
DisableNoise >NOISE:NOISE
AddNoise model:MODEL noise:NOISE sigmas:SIGMAS latent_image:LATENT >LATENT:LATENT
BasicGuider model:MODEL conditioning:CONDITIONING >GUIDER:GUIDER
CFGGuider model:MODEL positive:CONDITIONING negative:CONDITIONING cfg=8[0..100] >GUIDER:GUIDER
DualCFGGuider model:MODEL cond1:CONDITIONING cond2:CONDITIONING negative:CONDITIONING cfg_conds=8[0..100] cfg_cond2_negative=8[0..100] style=regular{regular,nested} >GUIDER:GUIDER
DualModelGuider model:MODEL positive:CONDITIONING cfg=4[0..100] model_negative?:MODEL negative?:CONDITIONING >GUIDER:GUIDER
PerpNegGuider model:MODEL positive:CONDITIONING negative:CONDITIONING empty_conditioning:CONDITIONING cfg=8[0..100] neg_scale=1[0..100] >GUIDER:GUIDER
BasicScheduler model:MODEL scheduler=* steps=20[1..10000] denoise=1[0..1] >SIGMAS:SIGMAS
KarrasScheduler steps=20[1..10000] sigma_max=14.614642[0..5000] sigma_min=0.0291675(0..5000] rho=7(0..100] >SIGMAS:SIGMAS
ExponentialScheduler steps=20[1..10000] sigma_max=14.614642[0..5000] sigma_min=0.0291675(0..5000] >SIGMAS:SIGMAS
PolyexponentialScheduler steps=20[1..10000] sigma_max=14.614642[0..5000] sigma_min=0.0291675(0..5000] rho=1(0..100] >SIGMAS:SIGMAS
LaplaceScheduler steps=20[1..10000] sigma_max=14.614642[0..5000] sigma_min=0.0291675[0..5000] mu=0[-10..10] beta=0.5[0..10] >SIGMAS:SIGMAS
VPScheduler steps=20[1..10000] beta_d=19.9[0..5000] beta_min=0.1[0..5000] eps_s=0.001[0..1] >SIGMAS:SIGMAS
BetaSamplingScheduler model:MODEL steps=20[1..10000] alpha=0.6(0..50] beta=0.6(0..50] >SIGMAS:SIGMAS
SDTurboScheduler model:MODEL steps=1[1..10] denoise=1[0..1] >SIGMAS:SIGMAS
AlignYourStepsScheduler model_type=SD1{SD1,SDXL,SVD} steps=10[1..10000] denoise=1[0..1] >SIGMAS:SIGMAS
GITSScheduler coeff=1.2[0.8..1.5] steps=10[2..1000] denoise=1[0..1] >SIGMAS:SIGMAS
OptimalStepsScheduler model_type=FLUX{FLUX,Wan,Chroma} steps=20[3..1000] denoise=1[0..1] >SIGMAS:SIGMAS
ManualSigmas sigmas=* >SIGMAS:SIGMAS
SplitSigmas sigmas:SIGMAS step=0[0..10000] >high_sigmas:SIGMAS >low_sigmas:SIGMAS
SplitSigmasDenoise sigmas:SIGMAS denoise=1[0..1] >high_sigmas:SIGMAS >low_sigmas:SIGMAS
FlipSigmas sigmas:SIGMAS >SIGMAS:SIGMAS
SetFirstSigma sigmas:SIGMAS sigma=136[0..20000] >SIGMAS:SIGMAS
ExtendIntermediateSigmas sigmas:SIGMAS steps=2[1..100] start_at_sigma=-1[-1..20000] end_at_sigma=12[0..20000] spacing=linear{linear,cosine,sine} >SIGMAS:SIGMAS
SamplingPercentToSigma model:MODEL sampling_percent=0[0..1] return_actual_sigma=false >sigma_value:FLOAT
SamplerEulerAncestral eta=1[0..100] s_noise=1[0..100] >SAMPLER:SAMPLER
SamplerEulerAncestralCFGPP eta=1[0..1] s_noise=1[0..10] >SAMPLER:SAMPLER
SamplerEulerCFGpp version=regular{regular,alternative} >SAMPLER:SAMPLER
SamplerLMS order=4[1..100] >SAMPLER:SAMPLER
SamplerDPMPP_2M_SDE solver_type=midpoint{midpoint,heun} eta=1[0..100] s_noise=1[0..100] noise_device=gpu{gpu,cpu} >SAMPLER:SAMPLER
SamplerDPMPP_3M_SDE eta=1[0..100] s_noise=1[0..100] noise_device=gpu{gpu,cpu} >SAMPLER:SAMPLER
SamplerDPMPP_SDE eta=1[0..100] s_noise=1[0..100] r=0.5[1e-06..100] noise_device=gpu{gpu,cpu} >SAMPLER:SAMPLER
SamplerDPMPP_2S_Ancestral eta=1[0..100] s_noise=1[0..100] >SAMPLER:SAMPLER
SamplerDPMAdaptative order=3[2..3] rtol=0.05[0..100] atol=0.0078[0..100] h_init=0.05[0..100] pcoeff=0[0..100] icoeff=1[0..100] dcoeff=0[0..100] accept_safety=0.81[0..100] eta=0[0..100] s_noise=1[0..100] >SAMPLER:SAMPLER
SamplerER_SDE solver_type=ER-SDE{ER-SDE,Reverse-time_SDE,ODE} max_stage=3[1..3] eta=1[0..10] s_noise=1[0..100] >SAMPLER:SAMPLER
SamplerSASolver model:MODEL eta=1[0..10] sde_start_percent=0.2[0..1] sde_end_percent=0.8[0..1] s_noise=1[0..100] predictor_order=3[1..6] corrector_order=4[0..6] use_pece=false simple_order_2=false >SAMPLER:SAMPLER
SamplerSEEDS2 solver_type=phi_1{phi_1,phi_2} eta=1[0..100] s_noise=1[0..100] r=0.5[0.01..1] >SAMPLER:SAMPLER
SamplerLCM s_noise=1[0..64] s_noise_end=1[0..64] noise_clip_std=0[0..10] >SAMPLER:SAMPLER
SamplerLCMUpscale scale_ratio=1[0.1..20] scale_steps=-1[-1..1000] upscale_method=bislerp{bislerp,nearest-exact,bilinear,area,bicubic} >SAMPLER:SAMPLER
PerpNeg model:MODEL empty_conditioning:CONDITIONING neg_scale=1[0..100] >MODEL:MODEL
RescaleCFG model:MODEL multiplier=0.7[0..1] >MODEL:MODEL
ModelSamplingDiscrete model:MODEL sampling=eps{eps,v_prediction,lcm,x0,img_to_img,img_to_img_flow} zsnr=false >MODEL:MODEL
ModelSamplingContinuousEDM model:MODEL sampling=v_prediction{v_prediction,edm,edm_playground_v2.5,eps,cosmos_rflow} sigma_max=120[0..1000] sigma_min=0.002(0..1000] >MODEL:MODEL
ModelSamplingContinuousV model:MODEL sampling=v_prediction{v_prediction} sigma_max=500[0..1000] sigma_min=0.03(0..1000] >MODEL:MODEL
ModelSamplingSD3 model:MODEL shift=3(0..100] >MODEL:MODEL
ModelSamplingAuraFlow model:MODEL shift=1.73(0..100] >MODEL:MODEL
ModelSamplingFlux model:MODEL max_shift=1.15[0..100] base_shift=0.5[0..100] width=1024[16..16384] height=1024[16..16384] >MODEL:MODEL
DifferentialDiffusion model:MODEL strength=1[0..1] >MODEL:MODEL
ModelRange model:MODEL other:MODEL start_percent=0.8[0..1] name="refiner" >MODEL:MODEL
ModelRangeAtStep model:MODEL other:MODEL sigmas:SIGMAS start_at_step=20[0..10000] name="refiner" >MODEL:MODEL
ConditioningSetModelRange conditioning:CONDITIONING model_range="refiner" >CONDITIONING:CONDITIONING
InpaintModelConditioning positive:CONDITIONING negative:CONDITIONING vae:VAE pixels:IMAGE mask:MASK noise_mask=true >positive:CONDITIONING >negative:CONDITIONING >latent:LATENT
InstructPixToPixConditioning positive:CONDITIONING negative:CONDITIONING vae:VAE pixels:IMAGE >positive:CONDITIONING >negative:CONDITIONING >latent:LATENT
SD_4XUpscale_Conditioning images:IMAGE positive:CONDITIONING negative:CONDITIONING scale_ratio=4[0..10] noise_augmentation=0[0..1] >positive:CONDITIONING >negative:CONDITIONING >latent:LATENT
LatentCompositeMasked destination:LATENT source:LATENT x=0[0..16384] y=0[0..16384] resize_source=false mask?:MASK >LATENT:LATENT
T

# `kiln nodes NAME ...` as lines of the table's form, a token a line: "NODE TOKEN"
flatten() {
    awk '
        /^[A-Za-z0-9_]+ - / { node = $1; part = ""; next }
        /^(inputs|parameters|outputs):$/ { part = $1; next }
        !/^  [^ ]/ { next }
        { name = $1; rest = $0; sub(/^ *[^ ]+ +/, "", rest); value = rest; sub(/.*; default /, "", value) }
        part == "inputs:" { mark = rest ~ /, optional/ ? "?" : ""; sub(/,.*/, "", rest); print node, name mark ":" rest }
        part == "outputs:" { sub(/,.*/, "", rest); print node, ">" name ":" rest }
        part != "parameters:" { next }
        rest ~ /^a number above / { split(rest, w, / above | and up to |;/); print node, name "=" value "(" w[2] ".." w[3] "]"; next }
        rest ~ /^a (whole )?number from / { split(rest, w, / from | to |;/); print node, name "=" value "[" w[2] ".." w[3] "]"; next }
        rest ~ /^one of / { sub(/^one of /, "", rest); sub(/; default .*/, "", rest); gsub(/, /, ",", rest); gsub(/ /, "_", rest); print node, name "=" value "{" rest "}"; next }
        { print node, name "=" value }' "$@"
}

mapfile -t nodes < <(cut -d ' ' -f 1 "$work/wanted")
if "$kiln" nodes "${nodes[@]}" >"$work/said" 2>"$work/errors"; then echo "ok the_nodes_are_there"
else # one that is missing says nothing of the others
    cat "$work/errors"; echo "FAIL the_nodes_are_there"; status=1
    for node in "${nodes[@]}"; do "$kiln" nodes "$node" 2>/dev/null; done >"$work/said"
fi
flatten "$work/said" >"$work/have"
[ "${#nodes[@]}" -ge 53 ] && [ "$(wc -l <"$work/have")" -gt 200 ] && echo "ok the_table_is_read" || { echo "FAIL the_table_is_read"; status=1; }

while read -r node tokens; do
    faults=
    for token in $tokens; do
        case $token in
        *'=*') grep -q "^$node ${token%'*'}." "$work/have" || faults+=" $token" ;;
        *) grep -qxF -- "$node $token" "$work/have" || faults+=" $token" ;;
        esac
    done
    # and nothing that nobody knows of
    while read -r _ token; do
        name=${token%%[:=]*}
        case " $tokens $own " in *" $name:"* | *" $name="* | *" $name "*) ;; *) faults+=" +$token" ;; esac
    done < <(grep "^$node " "$work/have")
    if [ -z "$faults" ]; then echo "ok $node"; else echo "  wanted:$faults; has: $(grep "^$node " "$work/have" | cut -d ' ' -f 2 | tr '\n' ' ')"; echo "FAIL $node"; status=1; fi
done <"$work/wanted"

schedules=simple,sgm_uniform,karras,exponential,ddim_uniform,beta,normal,linear_quadratic,kl_optimal
for node in KSampler KSamplerAdvanced BasicScheduler; do
    name=the_nine_schedules_and_the_default_of_$node
    if grep -q "^$node scheduler=simple{$schedules}$" "$work/have"; then echo "ok $name"; else echo "FAIL $name"; status=1; fi
done
all=$("$kiln" samplers | awk 'NR > 1 { print $1 }' | paste -sd ,)
for node in KSampler KSamplerAdvanced KSamplerSelect; do
    if grep -qF "{$all}" <(grep "^$node sampler_name=" "$work/have"); then echo "ok every_sampler_is_in_$node"; else echo "FAIL every_sampler_is_in_$node"; status=1; fi
done
exit $status
