# test_check_plugin.sh - `kiln check-plugin` finds each of twenty ways to break the contract, and nothing in a good node nor in those
# that ship with kiln.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2

ways=( # WAY|what the report has to say
    '1|past the end of a tensor' '2|wrote to one of its inputs' '3|instead of KILN_CANCELLED' '4|declared PURE but made other bytes'
    '5|made a NaN or infinity from finite inputs at the low ends' '6|declared PURE' '7|instead of KILN_ERR_NOMEM when allocation'
    "8|input 'image' ends with 1 references too many" "9|did not set output 'image'" '10|without a message' '11|ended the process with status 0'
    "12|crashed with SIGABRT" "13|output 'image': IMAGE is f32 .*; it has to be f32 .N,H,W,C., the last 3 to 4" '14|just outside a tensor\|before the beginning'
    '15|neither handed over nor let go' '16|with mode: other' '17|ms without calling progress' '18|changed the floating-point mode'
    "19|dropped a reference that is not its own.*input 'image' ends with 1 references too few" '20|past the end of a tensor or scratch block'
)
for row in "${ways[@]}"; do
    n=${row%%|*} says=${row#*|}
    [ "$n" = 18 ] && [ "$(uname -m)" != x86_64 ] && { echo "skip way_18: an x86 matter"; continue; }
    gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -DBAD="$n" -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/bad.c" -o "bad$n.so" || exit 2
    "$kiln" check-plugin "bad$n.so" >report.txt 2>&1
    result=$?
    if [ $result -eq 1 ] && grep -q "FAIL.*\($says\)" report.txt; then echo "ok way_$n"; else cat report.txt; echo "FAIL way_$n ($result)"; status=1; fi
done
gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -DBAD=0 -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/bad.c" -o good.so || exit 2
# Those whose nodes all want models or files get a workflow.
head="model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}"
cat >patched.yaml <<Y
nodes:
  $head
  patched: {class_type: FreeU_V2, inputs: {model: [model, MODEL]}}
  prompt: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 128, height: 128}}
  drawn:
    class_type: KSampler
    inputs: {model: [patched, 0], positive: [prompt, 0], negative: [prompt, 0], latent_image: [empty, 0], steps: 1}
  decoded: {class_type: VAEDecode, inputs: {samples: [drawn, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decoded, 0]}}
Y
printf 'nodes:\n  %s\n  save: {class_type: VAESave, inputs: {vae: [model, VAE]}}\n' "$head" >saved.yaml
workflow_of() {
    case $1 in
        kiln-loader) echo "$KILN_ROOT/workflows/txt2img.yaml" ;;
        kiln-tokenizer) echo "$KILN_ROOT/workflows/story.yaml" ;;
        kiln-model_patch) echo patched.yaml ;;
        kiln-saving) echo saved.yaml ;;
    esac
}
for file in good.so "$KILN_ROOT/$KILN_BUILD"/plugins/*.so; do
    name=$(basename "$file" .so) workflow=$(workflow_of "$(basename "$file" .so)")
    "$kiln" check-plugin "$file" --sets 20 ${workflow:+--workflow "$workflow" --models "$KILN_ROOT/workflows/models"} >report.txt 2>&1
    if [ $? -eq 0 ]; then echo "ok $name"; else grep -v '^node' report.txt; echo "FAIL $name"; status=1; fi
done
# A workflow in which none of the plugin's nodes runs says nothing of it.
"$kiln" check-plugin "$KILN_ROOT/$KILN_BUILD/plugins/kiln-saving.so" --workflow patched.yaml --models "$KILN_ROOT/workflows/models" >report.txt 2>&1
[ $? -eq 1 ] && grep -q "not checked: workflow: none of the plugin's nodes ran in it" report.txt && grep -q 'FAIL nothing' report.txt && echo "ok a_workflow_of_others" ||
    { cat report.txt; echo "FAIL a_workflow_of_others"; status=1; }
"$kiln" check-plugin nowhere.so >report.txt 2>&1
[ $? -eq 2 ] && grep -q "there is no file 'nowhere.so'" report.txt && echo "ok missing_file" || { echo "FAIL missing_file"; status=1; }
echo hello >text.so
"$kiln" check-plugin text.so >report.txt 2>&1
[ $? -eq 1 ] && grep -q 'FAIL table' report.txt && echo "ok no_plugin" || { cat report.txt; echo "FAIL no_plugin"; status=1; }
[ -z "$(find "$work" -name 'kiln-check-*')" ] && echo "ok nothing_is_left" || { echo "FAIL nothing_is_left"; status=1; }
# One of those, with a workflow.
"$kiln" check-plugin "$KILN_ROOT/$KILN_BUILD/plugins/kiln-unet.so" --workflow "$KILN_ROOT/workflows/turbo.yaml" --models "$KILN_ROOT/workflows/models" >report.txt 2>&1
[ $? -eq 0 ] && grep -q 'contract yes, behaviour yes' report.txt && echo "ok with_a_workflow" || { cat report.txt; echo "FAIL with_a_workflow"; status=1; }
exit $status
