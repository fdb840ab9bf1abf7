# build.sh - builds the plugin whose binary is archived. scripts/abi-archive and test_archived_plugin.sh use it.
#   build.sh INCLUDE_FOLDER OUTPUT.so
here=$(dirname "$0")
exec ${CC:-gcc} -std=c11 -Os -Wall -Wextra -Wshadow -Wconversion -Werror -fPIC -fvisibility=hidden -ffp-contract=off -fno-asynchronous-unwind-tables \
    -I"$1" -shared -s -Wl,--hash-style=gnu "$here"/*.c -o "$2" -lm
