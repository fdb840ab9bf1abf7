# shellcheck shell=bash
# vision_workflows.sh - for tests of the vision nodes: runs over the tiny encoder, IP-Adapters and goldens of tests/strangers/ip_adapter, which
# transformers and diffusers made. Sourced after head.sh.
proof="$PWD/tests/strangers/ip_adapter"
mkdir -p "$work/plugins" "$work/models/clip_vision" "$work/models/ipadapter" "$work/models/style_models"
golden_plugin() {
    cc -std=c11 -O1 -fPIC -fvisibility=hidden -ffp-contract=off -Iinclude -shared tests/strangers/goldens/golden_nodes.c -o "$work/plugins/goldens.so" -lm &&
        chmod go-w "$work/plugins" "$work/plugins/goldens.so"
}
# run NAME ARG...: $work/NAME.yaml into $work/NAME, what is said into $work/log and $work/NAME.txt
run() {
    local name=$1; shift
    "$kiln" run "$work/$name.yaml" --precision f32 --plugins "$work/plugins" --models "$proof/models:tests/golden/ip_adapter/models:tests/strangers/control/models:$work/models" \
        --input "$proof:$proof/input:$work:tests/golden" --out "$work/$name" "$@" >"$work/$name.txt" 2>&1
    local got=$?
    cp "$work/$name.txt" "$work/log"
    return $got
}
# as_golden_times RUN GOLDEN: how often that run held a result against this golden and was within 1e-5 of it
as_golden_times() { sed -n "s/^golden golden\.$2 //p" "$work/$1.txt" | awk '$1 != "nan" && $1 + 0 <= 1e-5 { n++ } END { print n + 0 }'; }
test_plugin() { # SOURCE NAME
    cc -std=c11 -O1 -fPIC -fvisibility=hidden -ffp-contract=off -Iinclude -shared "$1" -o "$work/plugins/$2.so" -lm && chmod go-w "$work/plugins/$2.so"
}
