# test_contract.sh - the public headers break nothing of the archived contract (tests/abi/contract.txt): structs grow at their
# end, enums and tables get new entries, nothing moves. And every kind of break is noticed, with a sentence that says what to do.
status=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
here="$KILN_ROOT/tests/abi"
cc=${CC:-gcc}
[ "$(getconf LONG_BIT)" = 64 ] || { echo "skip contract: the archived one is of machines whose pointers have 64 bits"; exit 0; }
command -v python3 >/dev/null && command -v readelf >/dev/null || { echo "skip contract: python3 or readelf (binutils) is missing"; exit 0; }
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else cat "$work/said.txt"; echo "FAIL $1"; status=1; fi
}
judge() { # INCLUDE ARCHIVED: what compare.py says of these headers, in said.txt
    python3 "$here/describe.py" "$1" "$cc" >"$work/present.txt" 2>"$work/said.txt" || return 9
    python3 "$here/compare.py" "$2" "$work/present.txt" >"$work/said.txt" 2>&1
}

# ---- the headers as they are
judge "$KILN_ROOT/include" "$here/contract.txt"
answer=$?
[ $answer -eq 0 ] || echo "Mend the header; or, where the change is meant and may be made, run scripts/abi-archive (docs/hacking.md)." >>"$work/said.txt"
verdict the_headers_keep_the_contract $answer

# ---- what must be noticed, each against the headers as they are
cp "$work/present.txt" "$work/now.txt"
changed() { # FILE SED: a copy of the headers with that change
    rm -rf "$work/include" && mkdir "$work/include" && cp -r "$KILN_ROOT/include/." "$work/include" && sed -i -E "$2" "$work/include/kiln/$1" &&
        ! cmp -s "$work/include/kiln/$1" "$KILN_ROOT/include/kiln/$1"
}
finds() { # NAME STATUS WORDS FILE SED
    changed "$4" "$5" || { echo "the change is none" >"$work/said.txt"; verdict "$1" 1; return; }
    judge "$work/include" "$work/now.txt"
    [ $? -eq "$2" ] && { [ -z "$3" ] || grep -q -- "$3" "$work/said.txt"; }
    verdict "$1" $?
}
finds a_member_in_the_middle 1 "struct kiln_port: member 'dtypes' has moved from byte 28 to 32" plugin.h 's/^    uint32_t dtypes; .*/    uint32_t mine;\n&/'
finds a_member_of_another_type 1 "struct kiln_dot: 'double shift' has become 'float shift'" ops.h 's/^    double shift;$/    float shift;/'
finds a_member_that_is_gone 1 "struct kiln_tile_advice: member 'frame_overlap' is gone" autoencoder.h '/frame_overlap;/d'
finds a_member_that_is_renamed 1 "struct kiln_files_api: member 'commit' is gone or renamed" files.h 's/\(\*commit\)/(*keep)/'
finds two_members_that_changed_places 1 "struct kiln_bind: member 'name' has moved" ops.h '/^    const char \*name;$/{N;s/(.*)\n(    kiln_tensor tensor;)/\2\n\1/}'
finds an_enum_that_is_renumbered 1 'KILN_ERR_NOMEM was -3 and has become -9' plugin.h 's/KILN_ERR_NOMEM = -3/KILN_ERR_NOMEM = -9/'
finds a_value_before_others 1 'KILN_F16 was 2 and has become 3' plugin.h 's/^    KILN_F16,$/    KILN_F8,\n&/'
finds a_flag_whose_number_is_taken 1 'the new KILN_NODE_NEW has number 4, which is taken' plugin.h 's/^    KILN_NODE_ESTIMATES = 16/    KILN_NODE_NEW = 4,\n&/'
finds another_prototype 1 "struct kiln_host: 'void \*(\*scratch)(kiln_ctx \*, size_t, uint32_t)' has become" plugin.h 's/\(\*scratch\)\(kiln_ctx \*, size_t bytes, uint32_t device\)/(*scratch)(kiln_ctx *, size_t bytes)/'
finds a_function_of_the_library_that_changed 1 'function kiln_version' engine.h 's/kiln_version\(void\)/kiln_version(int which)/'
finds a_value_type_that_grows 1 'struct kiln_latent_place has grown, and cannot: it goes by value' latent.h 's/^    int64_t y, x;$/    int64_t y, x, z;/'
finds a_member_in_the_padding 1 "new member 'later' lies in what was padding" plugin.h 's/^    uint32_t estimate; .*/&\n    uint32_t later;/'
finds a_constant_that_changed 1 'constant KILN_OPS_ABILITY' ops.h 's|"kiln.ops/1"|"kiln.ops/2"|'
finds a_new_struct_without_a_size 1 'struct kiln_new is new and does not begin with' value.h 's/^#define KILN_VALUE_ABILITY.*/&\ntypedef struct { int a; } kiln_new;/'

# ---- what may be done: counted it is fine, uncounted it is said
next=$(($(sed -n 's/^#define KILN_ABI_NEWEST //p' "$KILN_ROOT/include/kiln/plugin.h") + 1))
grown='s/^} kiln_host;/    void (*later)(int level);\n&/'
finds growth_that_is_not_counted 2 'added: kiln_host.later' plugin.h "$grown"
finds growth_that_is_counted 0 'added: kiln_host.later' plugin.h "$grown;s/^#define KILN_ABI_NEWEST .*/#define KILN_ABI_NEWEST $next/"
finds a_new_value_that_is_counted 0 'added: KILN_LOG_TRACE' plugin.h "s/KILN_LOG_DEBUG \}/KILN_LOG_DEBUG, KILN_LOG_TRACE }/;s/^#define KILN_ABI_NEWEST .*/#define KILN_ABI_NEWEST $next/"
finds a_limit_may_rise 0 '' plugin.h 's/^#define KILN_MAX_RANK 8/#define KILN_MAX_RANK 12/'

# ---- a frozen contract is not archived anew with what changed in it; a newer major may be
tree() { # MAJOR: a copy of what scripts/abi-archive reads, of that major
    rm -rf "$work/tree" && mkdir -p "$work/tree/tests/abi" "$work/tree/build/release" && cp -r "$KILN_ROOT/scripts" "$KILN_ROOT/include" "$work/tree" &&
        cp "$here/frozen" "$here"/*.py "$here/contract.txt" "$work/tree/tests/abi" && sed -i "s/^#define KILN_ABI_MAJOR .*/#define KILN_ABI_MAJOR $1/" "$work/tree/include/kiln/plugin.h" &&
        printf '#!/bin/sh\nexit 1\n' >"$work/tree/build/release/kiln" && chmod +x "$work/tree/build/release/kiln"
}
archive() { KILN_BUILD=build/release bash "$work/tree/scripts/abi-archive" --unreleased >"$work/said.txt" 2>&1; }
tree 1 && ! archive && grep -q 'contract 1 is frozen' "$work/said.txt" && cmp -s "$work/tree/tests/abi/contract.txt" "$here/contract.txt"; verdict a_frozen_contract_is_not_archived_anew $?
tree 2 && ! archive && ! grep -q 'frozen' "$work/said.txt"; verdict a_newer_major_is_not_frozen $?
exit $status
