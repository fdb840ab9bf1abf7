# installed.sh - for tests of what `make install` leaves: sourced. `install_kiln PREFIX` installs this build there, without CUDA; `without_clone
# COMMAND...` runs a command with nothing in the clone's folder and an empty HOME ($work/home), or answers 125 where mounts are not allowed.
install_kiln() {
    local san="" debug=""
    case $KILN_BUILD in *-undefined-address) san=undefined,address ;; *-address) san=address ;; *-undefined) san=undefined ;; *-thread) san=thread ;; esac
    case $KILN_BUILD in *debug*) debug=1 ;; esac
    env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$KILN_ROOT" install NVCC= PREFIX="$1" DEBUG="$debug" SAN="$san" >"$work/install.txt" 2>&1 && return 0
    tail -n 5 "$work/install.txt"
    return 1
}

without_clone() {
    mkdir -p "$work/home"
    local user=()
    [ "$(id -u)" -eq 0 ] || user=(--map-root-user)
    unshare "${user[@]}" --mount true 2>/dev/null || return 125
    # shellcheck disable=SC2016
    env -u KILN_ROOT -u KILN_BUILD -u XDG_CACHE_HOME -u XDG_DATA_HOME -u KILN_PLUGIN_PATH -u KILN_MODELS HOME="$work/home" clone="$KILN_ROOT" \
        unshare "${user[@]}" --mount bash -c 'mount -t tmpfs -o ro none "$clone" && unset clone && exec "$@"' bash "$@"
}
