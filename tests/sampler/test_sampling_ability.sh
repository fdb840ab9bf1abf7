# test_sampling_ability.sh - kiln.sampling/1 from outside the tree: plugins/examples/sampling.c, built against include/ alone, brings a kind of
# GUIDER, a node that samples in tiles and one that samples with two models. Where they have to compute what kiln's own nodes do, the latents are the
# same bytes.
cd "$KILN_ROOT" || exit 2
kiln="$PWD/$KILN_BUILD/kiln"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/xdg"
status=0
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi
}
build() { # SOURCE.c
    cc -O1 -Wall -Wextra -Werror -std=c11 -fPIC -fvisibility=hidden -ffp-contract=off -I"$KILN_ROOT/include" -shared "$1" -o "${1%.c}.so" -lm && chmod go-w "${1%.c}.so"
}
mkdir "$work/plugins" && cp plugins/examples/sampling.c "$work/plugins/"
cat >"$work/plugins/dump.c" <<'C'
/* Writes a LATENT's numbers as they are: NAME_00001_.f32. */
#include "kiln/files.h"
#include "kiln/kit.h"
typedef struct { const char *name; } dump_params;
static const kiln_port in[] = {{.name = "samples", .type = "LATENT", .doc = "To write."}};
static const kiln_param param[] = {
    {.name = "name", .type = KILN_P_STRING, .offset = offsetof(dump_params, name), .def_str = "x", .doc = "Of the file."}};
static kiln_status run(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    kiln_tensor t;
    TRY(kit_samples(c, c->in[0], &t));
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, ((const dump_params *)c->params)->name, "f32");
    if (!f) return KILN_ERR_IO;
    TRY(files->write(f, t.data, kit_count(&t) * sizeof(float)));
    return files->commit(f, NULL);
}
static const kiln_node node = {KIT_NODE_FLAGS(KILN_NODE_OUTPUT, 1, "TestDumpLatent", "Dump", "test", "Writes a latent."),
                               KILN_ARRAY(in, in), KILN_ARRAY(param, param), .params_size = sizeof(dump_params), .run = run};
KILN_PLUGIN("org.example.dump", "1.0.0", "MIT", &node);
C
build "$work/plugins/sampling.c" && build "$work/plugins/dump.c"; verdict builds_against_the_public_headers_alone $?

# head WIDTH HEIGHT MODEL: what every workflow below begins with
head() {
    cat <<END
kiln: 1
params:
  sampler_name: {default: euler, help: how a step is taken}
  cfg: {default: 4.0, help: guidance}
  steps: {default: 5, help: steps}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: $3}}
  yes: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  no: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: ""}}
  empty: {class_type: EmptyLatentImage, inputs: {width: $1, height: $2, batch_size: 2}}
  noise: {class_type: RandomNoise, inputs: {noise_seed: 7}}
  how: {class_type: KSamplerSelect, inputs: {sampler_name: "\${sampler_name}"}}
  levels: {class_type: BasicScheduler, inputs: {model: [model, MODEL], scheduler: karras, steps: "\${steps}"}}
  cfg: {class_type: CFGGuider, inputs: {model: [model, MODEL], positive: [yes, 0], negative: [no, 0], cfg: "\${cfg}"}}
  same: {class_type: ExampleRampGuider, inputs: {model: [model, MODEL], positive: [yes, 0], negative: [no, 0], cfg: "\${cfg}", last: "\${cfg}"}}
  ramp: {class_type: ExampleRampGuider, inputs: {model: [model, MODEL], positive: [yes, 0], negative: [no, 0], cfg: "\${cfg}", last: 1.0}}
END
}
custom() { # NAME GUIDER LATENT
    echo "  $1: {class_type: SamplerCustomAdvanced, inputs: {noise: [noise, 0], guider: [$2, 0], sampler: [how, 0], sigmas: [levels, 0], latent_image: [$3, 0]}}"
}
tiled() { # NAME LATENT TILE OVERLAP
    echo "  $1: {class_type: ExampleTiledSampler, inputs: {guider: [cfg, 0], noise: [noise, 0], sampler: [how, 0], sigmas: [levels, 0], latent_image: [$2, 0], tile: $3, overlap: $4}}"
}
two() { # NAME GUIDER SECOND
    echo "  $1: {class_type: ExampleTwoModelSampler, inputs: {guider: [$2, 0], second: [$3, 0], noise: [noise, 0], sampler: [how, 0], sigmas: [levels, 0], latent_image: [empty, 0], sigma: 2.0}}"
}
loop() { echo "  $1: {class_type: ExampleLoopSampler, inputs: {guider: [$2, 0], noise: [noise, 0], sigmas: [levels, 0], latent_image: [$3, 0]}}"; } # NAME GUIDER LATENT
dump() { for name in "$@"; do echo "  dump_$name: {class_type: TestDumpLatent, inputs: {samples: [$name, 0], name: $name}}"; done; }
run() { # OUT WORKFLOW ARG...
    local out=$1 file=$2; shift 2
    "$kiln" run "$file" -q --precision f32 --plugins "$work/plugins" --models workflows/models:tests/golden --out "$work/$out" "$@" >"$work/$out.txt" 2>&1 || { cat "$work/$out.txt"; return 1; }
}
same() { cmp -s "$work/$1_00001_.f32" "$work/$2_00001_.f32"; } # OUT/NAME OUT/NAME

# ---- the same bytes as kiln's own nodes, in one workflow
{
    head 128 64 shapes-sd1
    custom own cfg empty; custom guided same empty; custom ramped ramp empty
    tiled whole empty 64 8; tiled parts empty 8 3
    echo '  plain: {class_type: KSampler, inputs: {model: [model, MODEL], positive: [yes, 0], negative: [no, 0], latent_image: [empty, 0], seed: 7, steps: "${steps}", cfg: "${cfg}", sampler_name: "${sampler_name}", scheduler: karras}}'
    two twice cfg cfg; two changed cfg ramp
    echo '  half: {class_type: SolidMask, inputs: {value: 0.6, width: 64, height: 64}}'
    echo '  masked: {class_type: SetLatentNoiseMask, inputs: {samples: [own, 0], mask: [half, 0]}}'
    custom inside cfg masked; tiled inside_whole masked 64 8
    dump own guided ramped whole parts plain twice changed inside inside_whole
    echo '  decode: {class_type: VAEDecode, inputs: {samples: [parts, 0], vae: [model, VAE]}}'
    echo '  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: parts}}'
} >"$work/all.yaml"
for sampler in dpmpp_2m_sde euler_cfg_pp; do
    run "$sampler" "$work/all.yaml" --no-cache --set sampler_name=$sampler --keep-going >"$work/said" 2>&1
    result=$?
    [ $sampler = euler_cfg_pp ] || { [ $result -eq 0 ] || cat "$work/said"; verdict draws_with_each $result; }
    same $sampler/plain $sampler/own; verdict "KSampler_is_the_custom_sampler_$sampler" $?
    same $sampler/guided $sampler/own; verdict "a_guider_with_the_formula_of_cfg_$sampler" $?
    ! same $sampler/ramped $sampler/own && [ -s "$work/$sampler/ramped_00001_.f32" ]; verdict "a_guider_of_another_formula_$sampler" $?
    same $sampler/whole $sampler/plain; verdict "one_tile_over_everything_$sampler" $?
    same $sampler/twice $sampler/plain; verdict "the_same_model_twice_$sampler" $?
    ! same $sampler/changed $sampler/plain && [ -s "$work/$sampler/changed_00001_.f32" ]; verdict "two_models_$sampler" $?
    same $sampler/inside_whole $sampler/inside && ! same $sampler/inside $sampler/own; verdict "one_tile_inside_a_noise_mask_$sampler" $?
done
! same dpmpp_2m_sde/parts dpmpp_2m_sde/whole && [ -s "$work/dpmpp_2m_sde/parts_00002_.png" ]; verdict tiles_make_a_picture $?
[ ! -e "$work/euler_cfg_pp/parts_00001_.f32" ] && grep -q "euler_cfg_pp.*evaluates parts of it" "$work/euler_cfg_pp.txt"; verdict tiles_refuse_a_sampler_that_wants_the_whole $?

# Tiles leave no hole, whatever their overlap: where no tile speaks the guess is 0, and what euler ends with is 0 to the bit.
far() { paste <(od -An -v -w4 -t f4 "$work/$1_00001_.f32") <(od -An -v -w4 -t f4 "$work/$2_00001_.f32") | awk '{ d = $1 - $2; e += d * d; s += $2 * $2 } END { print sqrt(e / s) }'; }
{ head 128 64 shapes-sd1; tiled a empty 8 0; tiled b empty 12 5; tiled c empty 64 0; dump a b c; } >"$work/tiles.yaml"
run tiles "$work/tiles.yaml" --no-cache; drawn=$?
echo "# tiles against the whole: $(far tiles/a tiles/c) without overlap, $(far tiles/b tiles/c) with"
[ $drawn -eq 0 ] && ! same tiles/a tiles/b && ! cat "$work"/tiles/?_00001_.f32 | od -An -v -w4 -t f4 | grep -qE '^ *-?0$'; verdict tiles_of_any_overlap $?

# ---- a loop of the node's own
{ head 128 64 shapes-sd1; custom own cfg empty; loop loop cfg empty; dump own loop; } >"$work/loop.yaml"
run loop "$work/loop.yaml" --no-cache && same loop/loop loop/own; verdict a_loop_of_its_own $?

# ---- stopped and taken up again: the ramp guider, tiles, and the loop
pixels_of() { cat "$work/$1_00001_.f32" | cksum; }
killed_and_resumed() { # NAME [SIGNAL [SECONDS between states]]
    local name=$1 signal=${2:-KILL} every=${3:-0.000001} pid begun
    rm -rf "$work/cache" "$work/events"
    run "whole_$name" "$work/$name.yaml" --no-cache --set steps=25 || return 1
    for _ in 1 2 3 4 5; do
        rm -rf "$work/cache" "$work/cut" "$work/events"
        env --default-signal=INT "$kiln" run "$work/$name.yaml" -q --precision f32 --plugins "$work/plugins" --models workflows/models --out "$work/cut" --set steps=25 \
            --cache "$work/cache" --save-state "$every" --events "$work/events" >/dev/null 2>&1 & pid=$!
        for _ in $(seq 1000); do grep -q '"what": "step"' "$work/events" 2>/dev/null && break; sleep 0.01; done
        sleep 0.1
        kill -$signal $pid 2>/dev/null; wait $pid 2>/dev/null
        [ -z "$(find "$work/cut" -name '*.f32' 2>/dev/null)" ] && break
    done
    run "rest_$name" "$work/$name.yaml" --cache "$work/cache" --events "$work/events" --set steps=25 || return 1
    begun=$(sed -n 's/.*"what": "step", "done": \([0-9]*\).*/\1/p' "$work/events" | command head -n 1)
    [ "${begun:-0}" -gt 1 ] && [ "$(pixels_of "whole_$name/$name")" = "$(pixels_of "rest_$name/$name")" ] || { echo "  begun at step ${begun:-?}"; return 1; }
}
{ head 128 128 shapes-sd1; custom ramped ramp empty; dump ramped; } >"$work/ramped.yaml"
{ head 128 128 shapes-sd1; tiled tiles empty 12 4; dump tiles; } >"$work/tiles.yaml"
killed_and_resumed ramped 2>/dev/null; verdict a_guider_from_outside_resumes $?
killed_and_resumed tiles 2>/dev/null; verdict tiles_resume $?
{ head 128 128 shapes-sd1; loop loop ramp empty; dump loop; } >"$work/loop.yaml"
killed_and_resumed loop 2>/dev/null; verdict a_loop_of_its_own_resumes $?
killed_and_resumed loop INT 30 2>/dev/null; verdict a_loop_of_its_own_resumes_when_interrupted $?

# ---- results: another provider of abilities is other code that a node from outside may run
{ head 64 64 shapes-sd1; custom own cfg empty; tiled tiles empty 64 8; dump own tiles; } >"$work/kept.yaml"
computed() { # the samplers that were computed
    rm -rf "$work/kept"
    run kept "$work/kept.yaml" --cache "$work/kept-cache" --events "$work/kept-events" --set steps=2
    sed -nE 's/.*"node_done".*"node": "(own|tiles)".*"from": "computed".*/\1/p' "$work/kept-events" | sort | tr '\n' ' '
}
first=$(computed); second=$(computed)
cat >"$work/plugins/provider.c" <<'C'
#include "kiln/plugin.h"
static const uint32_t table = sizeof table;
static kiln_status open_plugin(const kiln_host *host) { return host->provide("org.example.thing/1", &table); }
KILN_PLUGIN_WITHOUT_NODES("org.example.provider", "1.0.0", "MIT", open_plugin);
C
build "$work/plugins/provider.c"
third=$(computed); fourth=$(computed)
[ "$first" = "own tiles " ] && [ -z "$second$fourth" ] && [ "$third" = "tiles " ]; result=$?; [ $result -eq 0 ] || echo "  computed '$first', '$second', '$third', '$fourth'"
verdict another_provider_is_another_key $result

# ---- names: a taken kind, a taken ability
mkdir "$work/taken" && sed 's/"example-ramp"/"cfg"/; s/org\.example\.sampling/org.example.taken/; s/"Example\([A-Z]\)/"Taken\1/' plugins/examples/sampling.c >"$work/taken/kind.c"
for id in kiln.sampling/1 kiln.ops/1; do
    cat >"$work/taken/${id%/1}.c" <<C
#include "kiln/plugin.h"
static const uint32_t table = sizeof table;
static kiln_status open_plugin(const kiln_host *host) { return host->provide("$id", &table); }
KILN_PLUGIN_WITHOUT_NODES("org.example.${id%/1}", "1.0.0", "MIT", open_plugin);
C
done
for source in "$work"/taken/*.c; do build "$source"; done
"$kiln" plugins --plugins "$work/taken" >"$work/names.txt" 2>&1
grep -q "kiln\.guider\.cfg/1' is already registered by org\.kiln\.sampler" "$work/names.txt" && grep -q 'kind\.so' "$work/names.txt"; verdict a_taken_kind_names_both_plugins $?
grep -q "kiln\.sampling/1' is already registered by org\.kiln\.sampler" "$work/names.txt"; verdict a_taken_ability_names_both_plugins $?
grep -q "'kiln\.ops/1' is the engine's own" "$work/names.txt"; verdict the_engines_abilities_are_its_own $?

# ---- on a device: the same nodes over the emulation
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so" 2>/dev/null)
if [ -e "$emu" ]; then
    { head 96 64 tiny-sd1; custom ramped ramp empty; tiled tiles empty 8 4; two changed cfg ramp; dump ramped tiles changed; } >"$work/device.yaml"
    KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/report run device "$work/device.yaml" --no-cache --set steps=2 --device cuda && grep -q '^faults 0 kernel_faults 0 ' "$work/report" &&
        [ "$(find "$work/device" -name '*.f32' | wc -l)" -eq 3 ]
    verdict each_on_the_emulated_device $?
    run host "$work/device.yaml" --no-cache --set steps=2 --device cpu
    for name in ramped tiles changed; do # f32 networks: another order of sums
        paste <(od -An -v -w4 -t f4 "$work/device/${name}_00001_.f32") <(od -An -v -w4 -t f4 "$work/host/${name}_00001_.f32") |
            awk '{ d = $1 - $2; e += d * d; s += $2 * $2 } END { exit !(NR > 100 && s > 0 && e <= 1e-8 * s) }'
        verdict "${name}_on_the_device_is_the_hosts" $?
    done
fi
exit $status
