# test_expand.sh - a stranger brings a node that expands (plugins/examples/refine.c): built against an installed kiln and nothing else. The golden is
# the same workflow written out: the same bytes, and the same keys.
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
cd "$work" || exit 2
here="$work/given"
mkdir -p given/input && ln -s "$KILN_ROOT/workflows/models" given/models
build refine.so "$KILN_ROOT/plugins/examples/refine.c" && build ppm.so "$KILN_ROOT/plugins/examples/ppm.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d plugins/refine.so | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?

begin() {
    cat <<END
kiln: 1
params: {times: 2, steps: 3}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  yes: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  no: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: ""}}
  blank: {class_type: EmptyImage, inputs: {width: 64, height: 64, color: 8421504}}
END
}
{
    begin
    echo '  r: {class_type: ExampleRefine, inputs: {image: [blank, 0], model: [model, 0], positive: [yes, 0], negative: [no, 0], vae: [model, 2], times: "${times}", scale: 1.25, steps: "${steps}", seed: 5, denoise: 0.6}}'
    echo '  save: {class_type: ExampleSavePPM, inputs: {images: [r, image], filename_prefix: p}}'
} >expanding.yaml
written_out() { # TIMES
    begin | sed 's/times: 2, //'
    local i last=blank
    for i in $(seq "$1"); do
        cat <<END
  s$i: {class_type: ImageScaleBy, inputs: {image: [$last, 0], upscale_method: bicubic, scale_by: 1.25}}
  e$i: {class_type: VAEEncode, inputs: {pixels: [s$i, 0], vae: [model, 2]}}
  k$i: {class_type: KSampler, inputs: {model: [model, 0], positive: [yes, 0], negative: [no, 0], latent_image: [e$i, 0], seed: $((4 + i)), steps: "\${steps}", cfg: 8, sampler_name: euler, scheduler: normal, denoise: 0.6}}
  d$i: {class_type: VAEDecode, inputs: {samples: [k$i, 0], vae: [model, 2]}}
END
        last=d$i
    done
    echo "  save: {class_type: ExampleSavePPM, inputs: {images: [$last, 0], filename_prefix: p}}"
}
for times in 1 2 3; do
    written_out $times >flat.yaml
    run expanded$times expanding.yaml --no-cache --set times=$times && run flat$times flat.yaml --no-cache && cmp expanded$times/p_00001_.ppm flat$times/p_00001_.ppm
    verdict "the_bytes_of_${times}_written_out" $?
done
run kept expanding.yaml --cache cache --set times=3 && run again flat.yaml --cache cache --events events && [ "$(grep -c '"from": "computed"' events)" = 1 ]
verdict the_keys_of_3_written_out $? # but for the node that writes
sed "s|times: 2|times: 9|" expanding.yaml >often.yaml
refused a_parameter_out_of_range often.yaml 2 "node 'r' .ExampleRefine.: input 'times': '9' is not a whole number from 0 to 8"
exit $status
