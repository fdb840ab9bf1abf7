# test_custom_sampling.sh - workflows/custom_sampling.yaml as its users meet it: the picture KSampler draws, options, faults.
cd "$KILN_ROOT" || exit 2
kiln="$PWD/$KILN_BUILD/kiln"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache"
status=0
ok() { echo "ok $1"; }
bad() { echo "  $2"; echo "FAIL $1"; status=1; }
# The pixels alone: what follows the first IDAT (before it stands the workflow, which differs).
pixels() { tail -c "+$(grep -abo IDAT "$1" | head -n 1 | cut -d: -f1)" "$1" | cksum; }
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
expect option_out_of_range "it goes from 0 to 100" custom --set sampler=euler_ancestral --set options=eta=-1

"$kiln" nodes >"$work/nodes" 2>&1
for node in KSamplerSelect SamplerCustom SamplerCustomAdvanced BasicScheduler RandomNoise CFGGuider SplitSigmas ModelSamplingDiscrete RescaleCFG SamplerLMS; do
    grep -qw "$node" "$work/nodes" && ok "listed_$node" || bad "listed_$node" "not in 'kiln nodes'"
done
exit $status
