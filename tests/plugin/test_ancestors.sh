# test_ancestors.sh - a plugin whose folder others could exchange by renaming a folder above it is refused, as if they could write to its own.
. "$KILN_ROOT/tests/cli/head.sh"
trap 'chmod -R u+rwX,go-w "$work"; rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH
umask 022
mkdir -p "$work/top/middle/plugins" "$work/copy"
cp "$KILN_BUILD/plugins/kiln-primitive.so" "$work/top/middle/plugins/primitive-copy.so"
# loads NAME PATH: not refused for who may write above it (kiln's own plugin of the same id may shadow it)
state() { "$kiln" plugins --plugins "$1" 2>/dev/null | grep -A1 'primitive-copy.so\|/plugins$' | grep -m1 'which\|folder'; }
loads() { local said; said=$(state "$2"); [ -z "$said" ] && ok "$1" || bad "$1" "refused: $said"; }
refused() { local said; said=$(state "$3"); case $said in *"$2"*) ok "$1" ;; *) bad "$1" "wanted '$2', it says '$said'" ;; esac; }
folder="$work/top/middle/plugins"

loads nobody_else_may_write "$folder"
loads below_a_sticky_folder "$folder/primitive-copy.so" # mktemp's folder is in one
chmod o+w "$work/top"
refused anyone_may_rename_the_folder_above "below $work/top, which can be written by anyone; take that away with: chmod o-w" "$folder"
refused of_a_single_file_too "below $work/top, which can be written by anyone" "$folder/primitive-copy.so"
chmod +t "$work/top"
loads a_sticky_one_keeps_its_entries "$folder"
chmod -t,o-w "$work/top"
chmod o+w "$work/top/middle"
refused nearer_ones_are_named_first "below $work/top/middle, which" "$folder"
chmod o-w "$work/top/middle"
if [ "$(id -u)" = 0 ]; then
    chgrp 1 "$work/top"; chmod g+w "$work/top"
    refused a_group_may_rename "below $work/top, which can be written by its group; take that away with: chmod g-w" "$folder"
    chmod g-w "$work/top"; chown 1 "$work/top"
    refused another_users_folder_above "below $work/top, which belongs to another user" "$folder"
    chown 0 "$work/top"
else
    echo "skip a_group_may_rename: wants root"
fi
ln -s "$folder" "$work/link"; chmod o+w "$work/top"
refused through_a_link_the_true_folders_count "below $work/top, which" "$work/link"
exit $status
