# test_anonymous.sh - what the process really holds under a budget: its anonymous memory, as the kernel counts it (RssAnon), is never more
# than the budget and what docs/memory.md says is beside it. Full (KILN_TEST_FULL=1): a full-size SD1.5 of random weights, too.
cd "$KILN_ROOT" || exit 2
kiln="$PWD/$KILN_BUILD/kiln"
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
if [[ $KILN_BUILD == *-address || $KILN_BUILD == *-thread ]]; then echo "skip anonymous_memory: a sanitizer holds memory of its own"; exit 0; fi
BESIDE=100000000 # "What is not on the account" in docs/memory.md
status=0

# The most anonymous memory of a command, looked at a few hundred times a second, in $most.
most=0
watch() {
    local pid name value rest
    "$@" >"$work/stdout" 2>"$work/log" & pid=$!
    most=0
    while [ -e "/proc/$pid/status" ] && kill -0 $pid 2>/dev/null; do
        while read -r name value rest; do
            if [ "$name" = RssAnon: ]; then [ "$value" -gt "$most" ] && most=$value; break; fi
        done 2>/dev/null <"/proc/$pid/status"
        read -rt 0.003 <> <(:) || :
    done
    wait $pid
}

within() { # NAME BUDGET SETTINGS...
    local name=$1 budget=$2 bytes; shift 2
    watch "$kiln" run workflows/txt2img.yaml -q --no-cache --device cpu --out "$work/out" --memory "$budget" "$@"
    local end=$?
    bytes=$((most * 1024))
    echo "  $name: $bytes bytes of anonymous memory under a budget of $budget"
    if [ $end -ne 0 ]; then tail -n 3 "$work/log"; echo "FAIL $name"; status=1
    elif [ $bytes -lt 5000000 ] || [ $bytes -gt $((budget + BESIDE)) ]; then echo "FAIL $name"; status=1
    else echo "ok $name"; fi
}

within shipped_model_16M 16000000 --set steps=4
within shipped_model_60M 60000000 --set steps=4
if [ "${KILN_TEST_FULL:-0}" = 1 ]; then
    cp -r tests/bench/sd15 "$work/sd15" && mkdir "$work/sd15/tokenizer" && cp tests/golden/clip-tokenizer/{vocab.json,merges.txt} "$work/sd15/tokenizer/"
    "$KILN_BUILD/tests/bench/random_model" tests/bench/sd15/tensors.txt "$work/sd15" >/dev/null || { echo "FAIL full_size_model"; exit 1; }
    for budget in 450000000 600000000 1000000000; do
        for precision in auto f32; do
            least=$("$kiln" run workflows/txt2img.yaml --device cpu --precision $precision --set model.ckpt_name="$work/sd15" --set empty.width=256 --set empty.height=256 --explain |
                sed -n 's/.*; \([0-9]*\)[.0-9]* MB is the least that works.*/\1/p')
            [ "$((${least:-0} * 1000000))" -lt $budget ] || { echo "skip full_size_${precision}_$budget: it takes $least MB at least"; continue; }
            within "full_size_${precision}_$budget" $budget --precision $precision --set steps=2 --set model.ckpt_name="$work/sd15" --set empty.width=256 --set empty.height=256
        done
    done
else
    echo "skip full_size_model: in full (make test-memory), 2 GB are written"
fi
exit $status
