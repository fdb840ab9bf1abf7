# test_custom_sampling.sh - workflows/custom_sampling.yaml as its users meet it: the picture KSampler draws, options, faults.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
custom() { "$kiln" run workflows/custom_sampling.yaml -q --set steps=3 --out "$work/custom" "$@" 2>"$work/log"; }

expect() { # NAME PART COMMAND...: fails and says PART
    local name=$1 part=$2; shift 2
    if "$@" >/dev/null; then bad "$name" "it was accepted"
    elif grep -qF -- "$part" "$work/log"; then ok "$name"; else bad "$name" "does not say '$part' but: $(head -n 2 "$work/log")"; fi
}

usual=$(custom)
[ -s "$usual" ] && ok draws_a_picture || bad draws_a_picture "$(cat "$work/log")"
ksampler=$("$kiln" run workflows/txt2img.yaml -q --set steps=3 --out "$work/k" 2>"$work/log")
[ -s "$ksampler" ] && [ "$(pixels "$usual")" = "$(pixels "$ksampler")" ] && ok the_picture_of_ksampler || bad the_picture_of_ksampler "they differ"
for sampler in euler_ancestral dpmpp_2m; do
    a=$(custom --set sampler=$sampler --set scheduler=karras)
    b=$("$kiln" run workflows/txt2img.yaml -q --set steps=3 --set sampler.sampler_name=$sampler --set sampler.scheduler=karras --out "$work/k" 2>>"$work/log")
    if [ -s "$a" ] && [ -s "$b" ] && [ "$(pixels "$a")" = "$(pixels "$b")" ] && [ "$(pixels "$a")" != "$(pixels "$usual")" ]; then ok "the_picture_of_ksampler_$sampler"
    else bad "the_picture_of_ksampler_$sampler" "they differ: $(cat "$work/log")"; fi
done
a=$(custom --set sampler=euler_ancestral --set scheduler=karras) b=$(custom --set sampler=euler_ancestral --set scheduler=karras --set 'options=eta=0.5')
[ -s "$b" ] && [ "$(pixels "$a")" != "$(pixels "$b")" ] && ok S13_an_option_has_an_effect || bad S13_an_option_has_an_effect "same picture: $(cat "$work/log")"

expect unknown_sampler "did you mean 'euler'" custom --set sampler=eulr
expect unknown_option "has no option 'etta'; did you mean 'eta'?" custom --set sampler=euler_ancestral --set options=etta=1
expect option_out_of_range "'-1' is not a number from 0 to 100" custom --set sampler=euler_ancestral --set options=eta=-1

# ---- the same without a run, at the place of what is wrong
checked() { "$kiln" check "$@" >"$work/log" 2>&1; }
at=$(grep -n 'options: ' workflows/custom_sampling.yaml | tail -n 1 | cut -d : -f 1)
expect option_out_of_range_is_found_by_check "custom_sampling.yaml:$at:" checked workflows/custom_sampling.yaml --set sampler=euler_ancestral --set options=eta=-1
expect check_says_its_range "'-1' is not a number from 0 to 100" checked workflows/custom_sampling.yaml --set sampler=euler_ancestral --set options=eta=-1
expect unknown_option_is_found_by_check "has no option 'etta'; did you mean 'eta'?" checked workflows/custom_sampling.yaml --set sampler=euler_ancestral --set options=etta=1
expect option_of_another_sampler_is_found_by_check "has no option 'eta'" checked workflows/custom_sampling.yaml --set sampler=euler --set options=eta=1
checked workflows/custom_sampling.yaml --set sampler=euler_ancestral --set options=eta=1 && ok options_that_fit_pass_check || bad options_that_fit_pass_check "$(head -n 3 "$work/log")"

# ---- one run, the same noise and levels, a picture for each way to guide or to read the network
{
    cat <<'Y'
nodes:
  base: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  yes: {class_type: CLIPTextEncode, inputs: {clip: [base, CLIP], text: a cat}}
  no: {class_type: CLIPTextEncode, inputs: {clip: [base, CLIP], text: a dog}}
  void: {class_type: CLIPTextEncode, inputs: {clip: [base, CLIP], text: ""}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  noise: {class_type: RandomNoise, inputs: {noise_seed: 5}}
  how: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}
  levels: {class_type: ManualSigmas, inputs: {sigmas: "0.9, 0.6, 0.2, 0"}}
  m_plain: {class_type: ModelSamplingDiscrete, inputs: {model: [base, MODEL], sampling: eps}}
  m_nearest: {class_type: ModelSamplingDiscrete, inputs: {model: [base, MODEL], sampling: eps, timestep: nearest}}
  m_v: {class_type: ModelSamplingDiscrete, inputs: {model: [base, MODEL], sampling: v_prediction}}
  m_x0: {class_type: ModelSamplingDiscrete, inputs: {model: [base, MODEL], sampling: x0}}
  m_edm: {class_type: ModelSamplingContinuousEDM, inputs: {model: [base, MODEL], sampling: edm}}
  m_flow: {class_type: ModelSamplingSD3, inputs: {model: [base, MODEL]}}
  m_rescale: {class_type: RescaleCFG, inputs: {model: [base, MODEL]}}
  m_perp: {class_type: PerpNeg, inputs: {model: [base, MODEL], empty_conditioning: [void, CONDITIONING]}}
  g_basic: {class_type: BasicGuider, inputs: {model: [base, MODEL], conditioning: [yes, CONDITIONING]}}
  g_dual: {class_type: DualCFGGuider, inputs: {model: [base, MODEL], cond1: [yes, CONDITIONING], cond2: [void, CONDITIONING], negative: [no, CONDITIONING], cfg_conds: 3, cfg_cond2_negative: 2}}
Y
    for m in plain nearest v x0 edm flow rescale perp; do
        echo "  g_$m: {class_type: CFGGuider, inputs: {model: [m_$m, MODEL], positive: [\"yes\", CONDITIONING], negative: [\"no\", CONDITIONING], cfg: 3}}"
    done
    for g in plain nearest v x0 edm flow rescale perp basic dual; do
        echo "  s_$g: {class_type: SamplerCustomAdvanced, inputs: {noise: [noise, NOISE], guider: [g_$g, GUIDER], sampler: [how, SAMPLER], sigmas: [levels, SIGMAS], latent_image: [empty, LATENT]}}"
        echo "  d_$g: {class_type: VAEDecode, inputs: {samples: [s_$g, denoised_output], vae: [base, VAE]}}"
        echo "  o_$g: {class_type: SaveImage, inputs: {images: [d_$g, IMAGE], filename_prefix: $g}}"
    done
} | sed 's/\[yes,/["yes",/g; s/\[no,/["no",/g; s/^  yes:/  "yes":/; s/^  no:/  "no":/' >"$work/ways.yaml"
"$kiln" run "$work/ways.yaml" --models tests/golden -q --out "$work/ways" >/dev/null 2>"$work/log"
[ "$(ls "$work/ways" 2>/dev/null | wc -l)" = 10 ] && ok ten_ways_draw || bad ten_ways_draw "$(cat "$work/log")"
[ "$(for f in "$work"/ways/*.png; do pixels "$f"; done | sort -u | wc -l)" = 10 ] && ok ten_ways_differ || bad ten_ways_differ "$(cd "$work/ways" && cksum *)"

"$kiln" nodes >"$work/nodes" 2>&1
for node in KSamplerSelect SamplerCustom SamplerCustomAdvanced BasicScheduler RandomNoise CFGGuider SplitSigmas ModelSamplingDiscrete RescaleCFG SamplerLMS; do
    grep -qw "$node" "$work/nodes" && ok "listed_$node" || bad "listed_$node" "not in 'kiln nodes'"
done
exit $status
