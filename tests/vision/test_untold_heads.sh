# test_untold_heads.sh - a vision encoder of a width that no released one has, in a file that does not say how many heads it has, is refused:
# with a guess it would draw other things than it saw.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
mkdir -p "$work/models/clip_vision"
python3 - workflows/models/clip_vision/shapes-vision.safetensors "$work/models/clip_vision/untold.safetensors" <<'PY'
import json, struct, sys
with open(sys.argv[1], "rb") as f:
    header, data = json.loads(f.read(struct.unpack("<Q", f.read(8))[0])), f.read()
assert header.pop("__metadata__")["num_attention_heads"] == "4"
text = json.dumps(header).encode()
with open(sys.argv[2], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + data)
PY
draw() { "$kiln" run workflows/ip-adapter.yaml --models "$work/models" --set steps=1 --no-cache --quiet --out "$work/out" "$@"; }
expect told 0 "" draw
expect untold 1 num_attention_heads draw --set vision.clip_name=untold.safetensors
exit $status
