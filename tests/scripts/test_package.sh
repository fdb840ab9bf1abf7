# test_package.sh - what `make install` carries beside the command, and a .deb of it: its Depends, and that it runs where it is unpacked, the clone out of reach.
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
cd "$work" || exit 2
. "$KILN_ROOT/tests/cli/installed.sh"
status=0
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi; }
inside() { without_clone "$@"; [ $? -ne 125 ] || env -u KILN_ROOT -u KILN_BUILD "$@"; }

install_kiln "$work/usr"; verdict it_is_installed $?
share="$work/usr/share"
[ "$(ls "$share/man/man1" | wc -l)" -eq $(($("$work/usr/bin/kiln" completions names manual | wc -l) + 1)) ]; verdict a_man_page_a_command $?
grep -q '^\.TH KILN\\-RUN 1' "$share/man/man1/kiln-run.1"; verdict of_its_command $?
bash -n "$share/bash-completion/completions/kiln" && [ -s "$share/zsh/site-functions/_kiln" ] && [ -s "$share/fish/vendor_completions.d/kiln.fish" ]; verdict completions $?
[ -s "$share/doc/kiln/docs/workflows.md" ] && [ -s "$share/doc/kiln/README.md" ] && [ -s "$share/doc/kiln/LICENSE" ]; verdict docs $?
[ -s "$share/kiln/workflows/txt2img.yaml" ] && [ -s "$share/kiln/examples/sampling.c" ]; verdict examples $?
cp -R "$share/kiln/template" plugin && PKG_CONFIG_PATH="$work/usr/lib/pkgconfig" make -s -C plugin >plugin.txt 2>&1
[ -n "$(find plugin -name '*.so')" ]; verdict the_plugin_template_builds_from_where_it_is_installed $?
if command -v man >/dev/null && [ "$(man -M "$share/man" -w kiln-run 2>/dev/null)" ]; then
    man -M "$share/man" kiln-run 2>/dev/null | grep -q 'kiln-run - run a workflow file'; verdict man_finds_it $?
else
    echo "skip man_finds_it: man is not installed"
fi
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$KILN_ROOT" uninstall PREFIX="$work/usr" >uninstall.txt 2>&1
[ -z "$(find "$work/usr" -type f)" ]; verdict uninstall_leaves_nothing $?

case $KILN_BUILD in *-address | *-undefined | *-thread | *debug*) echo "skip deb: a release build is packed"; exit $status ;; esac
if ! command -v dpkg-deb >/dev/null || ! command -v objdump >/dev/null; then echo "skip deb: dpkg or binutils is not installed"; exit $status; fi
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL DEB_COMPRESS=none make -s -C "$KILN_ROOT" deb NVCC= >deb.txt 2>&1; verdict make_deb $?
deb="$KILN_ROOT/$(tail -n 1 deb.txt)"
depends=$(dpkg-deb -f "$deb" Depends)
for library in libyaml-0-2 libpng16-16 libsqlite3-0 libdnnl; do grep -q "$library" <<<"$depends"; verdict "depends_on_$library" $?; done
missing=""
for package in $(sed 's/([^)]*)//g; s/,/ /g; s/|[^,]*//g' <<<"$depends"); do dpkg-query -W "$package" >/dev/null 2>&1 || missing+=" $package"; done
[ -z "$missing" ]; verdict "every_dependency_is_a_package$missing" $?
[ -z "$(dpkg-deb -c "$deb" | awk '{ print $1, $2, $6 }' | grep -vE ' root/root | \./usr/| \./$')" ]; verdict all_below_usr_and_of_root $?
maintainer=$(dpkg-deb -f "$deb" Maintainer)
[[ $maintainer == *\ \<?*@?*\> && $maintainer != *@localhost* ]]; verdict a_maintainer_with_an_address $?
dpkg-deb -x "$deb" unpacked
[ -s unpacked/usr/share/doc/kiln/copyright ] && zcat unpacked/usr/share/doc/kiln/changelog.gz | grep -q '^kiln ('; verdict copyright_and_changelog $?
(cd unpacked && dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./md5sums | md5sum --quiet -c -) >sums.txt 2>&1; verdict its_checksums $?
[ -z "$(find unpacked/usr -type f -name '*.so*' -perm /111)" ] && nm unpacked/usr/bin/kiln 2>&1 | grep -q 'no symbols'; verdict libraries_are_no_programs $?
zcat unpacked/usr/share/man/man1/kiln-run.1.gz | grep -q '^\.TH KILN'; verdict manuals_are_compressed $?
if command -v lintian >/dev/null; then
    # It is packed without compression for the test's sake.
    lintian --allow-root --suppress-tags uses-no-compression-for-control-tarball,uses-no-compression-for-data-tarball --fail-on error,warning "$deb" >lintian.txt 2>&1; verdict lintian_has_nothing_to_say $?
    grep '^[EW]' lintian.txt
else
    echo "skip lintian_has_nothing_to_say: lintian is not installed"
fi
lib=$(find unpacked/usr/lib -name libkiln.so)
[ -n "$lib" ] && KILN_LIBRARY="$work/$lib" PYTHONPATH="$work/unpacked/usr/lib/python3/dist-packages" inside python3 -c 'import kiln; print(len(kiln.run("workflows/txt2img.yaml", steps=1, out="by_python").files))' >python.txt 2>&1; verdict its_library_and_its_python_package_draw $?
inside "$work/unpacked/usr/bin/kiln" run workflows/txt2img.yaml --set steps=1 --no-cache -q --out drawn >run.txt 2>&1; verdict it_draws_where_it_is_unpacked $?
[ -s drawn/kiln_00001_.png ]; verdict a_picture $?
if [ "$(id -u)" -eq 0 ]; then
    # A root of its own, with a database that knows no other package: the dependencies are looked at above.
    mkdir -p tree/var/lib/dpkg/{info,updates} && touch tree/var/lib/dpkg/{status,available}
    dpkg --root="$work/tree" --force-depends --force-script-chrootless --no-triggers -i "$deb" >dpkg.txt 2>&1
    dpkg --root="$work/tree" -s kiln 2>/dev/null | grep -q '^Status: install'; verdict dpkg_installs_it $?
    inside "$work/tree/usr/bin/kiln" check workflows/txt2img.yaml >check.txt 2>&1; verdict and_it_runs_from_there $?
    dpkg --root="$work/tree" --force-script-chrootless --no-triggers -r kiln >>dpkg.txt 2>&1
    [ ! -e tree/usr/bin/kiln ]; verdict and_removes_it $?
else
    echo "skip dpkg_installs_it: needs root"
fi
rm -f "$deb"
exit $status
