#!/bin/sh
# The image that all others are made from, where none can be pulled: Debian by debootstrap, imported as IMAGE. Run as root.
#   docker/base.sh [IMAGE [MIRROR]]          (default: drkit-base, and Debian's own archive)
# Nothing of this machine is in the image: neither MIRROR, nor resolv.conf, host name, machine id, logs, package lists.
set -eu
image=${1:-drkit-base}
archive=http://deb.debian.org/debian
mirror=${2:-$archive}
suite=bookworm

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$mirror" >&2

# Debian's own archive, as in its official image, whatever the mirror was.
cat > "$root/etc/apt/sources.list" <<SOURCES
deb $archive $suite main
deb $archive $suite-updates main
deb $archive-security $suite-security main
SOURCES
# A container starts no services when a package is installed.
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
: > "$root/etc/machine-id"
for text in doc info man locale; do find "$root/usr/share/$text" -type f ! -name copyright -delete; done

tar --create --directory "$root" --one-file-system --numeric-owner \
  --exclude=./etc/resolv.conf --exclude=./etc/hostname --exclude=./etc/hosts --exclude='./var/log/*' \
  --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./tmp/*' . \
  | docker import --change 'CMD ["bash"]' - "$image"
