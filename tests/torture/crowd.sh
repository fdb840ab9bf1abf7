# crowd.sh - many processes on one store, some of them killed: tests/torture/crowd.sh PROCESSES WORKFLOWS FOLDER
# Each process runs WORKFLOWS workflows out of twenty, in an order of its own; one run in five is killed (-9) at a random moment.
# What must hold: every picture is that of a run without a store, no value is damaged, a key is computed once, and once more
# for each kill at most, and no run waits for seconds.
build="${KILN_BUILD:-build/release}"
kiln="$PWD/${build#"$PWD"/}/kiln"
processes=$1 workflows=$2 work=$3 variants=20
mkdir -p "$work/ref" || exit 2
cat >"$work/w.yaml" <<'Y'
kiln: 1
params: {color: {default: 0}}
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 96, height: 64, batch_size: 1, color: "${color}"}}
  large: {class_type: ImageScale, inputs: {image: [blank, 0], upscale_method: lanczos, width: 320, height: 240, crop: disabled}}
  small: {class_type: ImageScale, inputs: {image: [large, 0], upscale_method: bicubic, width: 40, height: 30, crop: disabled}}
  save: {class_type: SaveImage, inputs: {images: [small, 0], filename_prefix: p}}
Y
for ((v = 0; v < variants; v++)); do
    "$kiln" run "$work/w.yaml" --set color=$((v * 700001 % 16777216)) --no-cache -q --out "$work/ref/$v" >/dev/null || exit 2
done
one() { # PROCESS
    local p=$1 i v out killed
    RANDOM=$((p * 7919 + 1))
    for ((i = 0; i < workflows; i++)); do
        v=$((RANDOM % variants)) out="$work/out/$p/$i" killed=0
        "$kiln" run "$work/w.yaml" --set color=$((v * 700001 % 16777216)) --cache "$work/store" --jobs 1 -q --out "$out" --events "$out.events" >/dev/null 2>"$out.log" &
        if ((RANDOM % 5 == 0)); then
            sleep 0.0$((RANDOM % 4))$((RANDOM % 10))
            kill -9 $! 2>/dev/null && killed=1
        fi
        if wait $! 2>/dev/null; then
            cmp -s "$out/p_00001_.png" "$work/ref/$v/p_00001_.png" || echo "process $p run $i: other bytes" >>"$work/wrong.$p"
        elif [ $killed -eq 0 ]; then
            echo "process $p run $i failed: $(head -n 1 "$out.log")" >>"$work/wrong.$p"
        else
            echo "$out" >>"$work/killed.$p"
        fi
    done
}
mkdir -p "$work/out"; for ((p = 0; p < processes; p++)); do mkdir "$work/out/$p"; done
for ((p = 0; p < processes; p++)); do one "$p" 2>/dev/null & done
wait
kills=$(cat "$work"/killed.* 2>/dev/null | wc -l)
[ -z "$(cat "$work"/wrong.* 2>/dev/null)" ] && echo "ok crowd_${processes}x${workflows}_bytes ($kills kills)" || { cat "$work"/wrong.* | head -n 5; echo "FAIL crowd_${processes}x${workflows}_bytes"; }
# Computations of nodes that are kept (not the saving), by key.
twice=$(cat "$work"/out/*/*.events | grep '"node_done"' | grep '"from": "computed"' | grep -v '"node": "save"' | sed -E 's/.*"key": "([0-9a-f]+)".*/\1/' | sort | uniq -c | awk '$1 > 1 {n += $1 - 1} END {print n + 0}')
if [ "$twice" -le "$kills" ]; then echo "ok crowd_computes_once ($twice computed again after $kills kills)"; else echo "  $twice computations too many, $kills kills"; echo "FAIL crowd_computes_once"; fi
if grep -rqs "busy\|locked\|not kept\|not all results" "$work"/out/*/*.log; then grep -rhs "busy\|locked\|not kept\|not all" "$work"/out/*/*.log | sort | uniq -c | head -n 3; echo "FAIL crowd_keeps_everything"; else echo "ok crowd_keeps_everything"; fi
"$kiln" cache verify --cache "$work/store" >"$work/verify" 2>&1 && echo "ok crowd_store_is_sound ($(cat "$work/verify"))" || { cat "$work/verify"; echo "FAIL crowd_store_is_sound"; }
