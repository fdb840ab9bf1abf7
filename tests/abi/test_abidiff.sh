# test_abidiff.sh - abidiff (Debian's abigail-tools) on the debug information of the headers of each archived release (archived/headers-*.tar.xz) and of
# today's: only additions may appear. A second opinion beside test_contract.sh, whose description it does not use.
status=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
here="$KILN_ROOT/tests/abi"
command -v abidiff >/dev/null && command -v gcc >/dev/null && command -v xz >/dev/null || { echo "skip abidiff: abidiff (abigail-tools), gcc or xz is missing"; exit 0; }
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else head -n 20 "$work/said.txt"; echo "FAIL $1"; status=1; fi
}
# A library that holds a pointer to everything that the archived headers have: types, and functions of the library.
compile() { # INCLUDE OUT: of what stands in names.c
    local header
    { for header in "$1"/kiln/*.h; do grep -q "^static inline" "$header" && ! grep -q '^typedef struct\|^struct' "$header" || echo "#include \"kiln/$(basename "$header")\""; done; cat "$work/names.c"; } >"$2.c"
    gcc -std=gnu11 -D_GNU_SOURCE -g -gdwarf-4 -fPIC -shared -w -I"$1" "$2.c" -o "$2" 2>"$work/said.txt"
}
names() { # INCLUDE
    sed -n -E 's/^\} (kiln_\w+);.*/\1 *keep_\1;/p; s/^(typedef )?struct (kiln_\w+) \{.*/struct \2 *keep_tag_\2;/p; s/^KILN_EXPORT [^;(]*[ *](kiln_\w+)\(.*/__typeof__(\1) *keep_\1;/p' "$1"/kiln/*.h | sort -u
}
# What abidiff says, without what may be: a struct that grew gets members behind its old end, an enum a new enumerator.
differ() {
    abidiff --leaf-changes-only --harmless "$1" "$2" >"$work/report.txt" 2>&1
    [ $(($? & 3)) -eq 0 ] || { cp "$work/report.txt" "$work/said.txt"; return 9; }
    awk '/^$|summary: / { next }
        /^.(struct|union|enum) .* changed:$/ { type = $0; end = -1; inserted = 0; next }
        /^  type size hasn.t changed$/ { next }
        /^  type size changed from/ && $7 + 0 > $5 + 0 { end = $5; next }
        /^  [0-9]+ data member insertions?:$/ || /^  [0-9]+ enumerator insertions?:$/ { inserted = 1; next }
        inserted && match($0, /, at offset [0-9]+ /) && end >= 0 && substr($0, RSTART + 12) + 0 >= end { next }
        inserted && /^    .kiln_?[a-z_]*:*[A-Za-z0-9_:]*. value .-?[0-9]+.$/ { next }
        { if (type != said) print type; said = type; print; bad = 1; inserted = 0 }
        END { exit bad }' "$work/report.txt" >"$work/said.txt"
}

major=$(sed -n 's/^#define KILN_ABI_MAJOR //p' "$KILN_ROOT/include/kiln/plugin.h")
released=0
for archive in "$here/archived/headers-$major".*.tar.xz; do
    name=$(basename "$archive" .tar.xz); name=${name#headers-}
    rm -rf "$work/then" && mkdir "$work/then" && tar -C "$work/then" -xJf "$archive" || { echo "FAIL $name"; exit 1; }
    names "$work/then/include" >"$work/names.c"
    [ "$(wc -l <"$work/names.c")" -gt 100 ] && compile "$work/then/include" "$work/then.so" && compile "$KILN_ROOT/include" "$work/now.so"; verdict "headers_${name}_compile" $?
    differ "$work/then.so" "$work/now.so"; verdict "only_additions_since_$name" $?
    released=$((released + 1))
done
[ $released -ge 1 ]; verdict releases_are_archived $?

# ---- what must be noticed, each in a copy of the headers as they are
changed() { # FILE SED
    rm -rf "$work/include" && mkdir "$work/include" && cp -r "$KILN_ROOT/include/." "$work/include" && sed -i -E "$2" "$work/include/kiln/$1" &&
        ! cmp -s "$work/include/kiln/$1" "$KILN_ROOT/include/kiln/$1" || { echo "the change is none" >"$work/said.txt"; return 1; }
}
finds() { # NAME WORDS FILE SED
    changed "$3" "$4" && compile "$work/include" "$work/other.so" && { differ "$work/now.so" "$work/other.so"; [ $? -ne 0 ]; } && grep -q -- "$2" "$work/said.txt"; verdict "$1" $?
}
finds a_member_in_the_middle "'uint32_t mine'" plugin.h 's/^    uint32_t dtypes; .*/    uint32_t mine;\n&/'
finds a_member_of_another_type "type 'double' of 'kiln_dot::shift' changed" ops.h 's/^    double shift;$/    float shift;/'
finds a_member_that_is_gone "frame_overlap" autoencoder.h '/frame_overlap;/d'
finds a_member_that_is_renamed "name of 'kiln_files_api::commit' changed to 'kiln_files_api::keep'" files.h 's/\(\*commit\)/(*keep)/'
finds a_member_in_the_padding "'uint32_t later'" plugin.h 's/^    uint32_t estimate; .*/&\n    uint32_t later;/'
finds a_value_before_others "'kiln_act::KILN_ACT_GELU' from value '2' to '3'" ops.h 's/(KILN_ACT_SILU,)/\1 KILN_ACT_MINE,/'
finds another_prototype "scratch" plugin.h 's/\(\*scratch\)\(kiln_ctx \*, size_t bytes, uint32_t device\)/(*scratch)(kiln_ctx *, size_t bytes)/'
finds a_function_of_the_library_that_changed "kiln_version" engine.h 's/kiln_version\(void\)/kiln_version(int which)/'
finds an_enum_that_is_renumbered "KILN_ERR_NOMEM" plugin.h 's/KILN_ERR_NOMEM = -3/KILN_ERR_NOMEM = -9/'
allows() { # NAME FILE SED
    changed "$2" "$3" && compile "$work/include" "$work/other.so" && differ "$work/now.so" "$work/other.so"; verdict "$1" $?
}
allows a_member_at_the_end plugin.h 's/^} kiln_host;/    void (*later)(int level);\n&/'
allows a_new_enumerator plugin.h 's/KILN_LOG_DEBUG \}/KILN_LOG_DEBUG, KILN_LOG_TRACE }/'
allows a_new_status plugin.h 's/KILN_ERR_BUG = -6/KILN_ERR_BUG = -6, KILN_ERR_LATER = -7/'
allows a_new_struct value.h 's/^#define KILN_VALUE_ABILITY.*/&\ntypedef struct { uint32_t size; } kiln_new;/'
exit $status
