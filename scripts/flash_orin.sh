#!/usr/bin/env bash
# Flashes a Jetson AGX Orin from this host, with NVIDIA's own tools. See docs/flash.md.
#
#   scripts/flash_orin.sh [--storage nvme|emmc] [--bsp FOLDER] [--board NAME] [--no-setup]
#   scripts/flash_orin.sh --with sdkmanager --jetpack VERSION
#
#   --storage   where the system goes; nvme (default) also writes the boot chain on the module
#   --bsp       the Linux_for_Tegra folder; default: the newest here, in ~ or in ~/nvidia/nvidia_sdk
#   --board     its configuration in the BSP; default jetson-agx-orin-devkit
#   --no-setup  do not copy this toolkit to the board, to build and set it up at first boot
#   --dry-run   print the commands and what stands against them; needs neither root nor a board
#   --yes       erase without asking
#
# Exit status: 0 done, 1 flashing failed or was declined, 2 wrong usage, 4 a board, a tool or room is missing.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/flash_checks.sh
source "$repository/scripts/flash_checks.sh"

image_gb=30       # the system image and its sparse copy, twice for nvme
sdkmanager_gb=60  # downloads and the BSP as well
# What the tools of the BSP call and a host may lack; installed by its tools/l4t_flash_prerequisites.sh.
flash_needs=(abootimg cpio dtc rsync sshpass xmllint xxd)

usage() { sed -n '2,14s/^# \{0,1\}//p' "$0"; }
wrong_usage() {
    echo "error: $*" >&2
    usage >&2
    exit 2
}
failed() {
    echo "error: $*" >&2
    exit 1
}

storage='' bsp='' board='' jetpack='' tool=bsp setup=true dry_run=false yes=false
while [[ $# -gt 0 ]]; do
    case $1 in
        --storage | --bsp | --board | --jetpack | --with)
            [[ -n "${2:-}" ]] || wrong_usage "$1 needs a value"
            case $1 in
                --storage) storage=$2 ;;
                --bsp) bsp=$2 ;;
                --board) board=$2 ;;
                --jetpack) jetpack=$2 ;;
                --with) tool=$2 ;;
            esac
            shift
            ;;
        --no-setup) setup=false ;;
        --dry-run) dry_run=true ;;
        --yes) yes=true ;;
        -h | --help)
            usage
            exit
            ;;
        *) wrong_usage "unknown argument $1" ;;
    esac
    shift
done

as_root=()
[[ $(id -u) -eq 0 ]] || as_root=(sudo)

# run COMMAND...: runs it in the folder $in; with --dry-run prints it instead, as a shell would read it.
run() {
    if $dry_run; then
        printf '(cd %q &&' "$in"
        printf ' %q' "$@"
        echo ')'
    else
        (cd "$in" && "$@")
    fi
}

refuse_if_problems() {
    if [[ $problems -gt 0 ]] && ! $dry_run; then
        echo "error: nothing was flashed; see the problems above" >&2
        exit 4
    fi
}

# confirm WHAT: what is erased is said, and asked for by a word that is not typed by habit.
confirm() {
    echo "This erases $1." >&2
    if $dry_run || $yes; then
        return
    fi
    [[ -t 0 ]] || wrong_usage "there is no terminal to ask on: say --yes to erase without a question"
    local answer
    read -rp "Type ERASE to go on: " answer || true
    [[ "$answer" == ERASE ]] || failed "nothing was flashed"
}

# ask_board: the module's EEPROM says what it is. The module restarts in recovery mode afterwards.
ask_board() {
    if $dry_run; then
        run "${as_root[@]}" ./nvautoflash.sh --print_boardid
        return
    fi
    local output
    output=$(run "${as_root[@]}" ./nvautoflash.sh --print_boardid 2>&1) || true
    check_board_id "$board" "$output"
    refuse_if_problems
    for _ in {1..20}; do
        [[ -z "$(recovery_devices)" ]] || return 0
        sleep 1
    done
    check_recovery
    refuse_if_problems
}

# hand_over: the toolkit lies in the image with a unit that builds it and applies its setup at first boot.
hand_over() {
    local in=$repository unit=orin-llm-first-boot.service
    local target=$bsp/rootfs/opt/orin-llm units=$bsp/rootfs/etc/systemd/system
    local sources=(README.md LICENSE NOTICE MANIFEST.in setup.py pyproject.toml CMakeLists.txt calibration docs orin_llm cpp cuda scripts)
    if ! {
        run "${as_root[@]}" mkdir -p "$target" "$units/multi-user.target.wants" &&
            run "${as_root[@]}" rsync -a --chown root:root --exclude '*.so' --exclude __pycache__ \
                "${sources[@]}" "$target/" &&
            run "${as_root[@]}" cp "scripts/$unit" "$units/" &&
            run "${as_root[@]}" ln -sfn "/etc/systemd/system/$unit" "$units/multi-user.target.wants/$unit"
    }; then
        failed "nothing was flashed: the toolkit could not be copied into $bsp/rootfs (--no-setup leaves it out)"
    fi
}

flash_with_bsp() {
    [[ -z "$jetpack" ]] || wrong_usage "--jetpack goes with --with sdkmanager"
    storage=${storage:-nvme} board=${board:-jetson-agx-orin-devkit} bsp=${bsp:-$(find_bsp)}
    [[ -n "$bsp" && -x "$bsp/flash.sh" ]] || {
        echo "error: no BSP: ${bsp:-neither here, in ~ nor in ~/nvidia/nvidia_sdk} has a Linux_for_Tegra with flash.sh. Unpack NVIDIA's Jetson Linux, or use --with sdkmanager" >&2
        exit 4
    }
    bsp=$(realpath "$bsp")
    local command erased in=$bsp release layout=tools/kernel_flash/flash_l4t_t234_nvme.xml
    release=$(bsp_release "$bsp")
    case $storage in
        emmc)
            command=(./flash.sh "$board" internal)
            erased="the eMMC and the boot chain of the module"
            ;;
        nvme)
            [[ "$release" != 35.* ]] || layout=tools/kernel_flash/flash_l4t_external.xml
            command=(./tools/kernel_flash/l4t_initrd_flash.sh --external-device nvme0n1p1 -c "$layout"
                --showlogs --network usb0 "$board" external)
            erased="the NVMe drive of the board, and the eMMC and the boot chain of its module"
            ;;
        *) wrong_usage "--storage is $storage: expected nvme or emmc" ;;
    esac

    check_host "${flash_needs[@]}"
    check_bsp "$bsp" "$board" "$setup"
    check_space "$bsp" "$image_gb"
    [[ "$storage" == emmc || -f "$bsp/$layout" ]] || problem "$bsp has no $layout: the BSP is not complete"
    check_recovery
    refuse_if_problems
    echo "BSP: $bsp, release $release" >&2
    ask_board
    confirm "$erased"
    ! $setup || hand_over
    run "${as_root[@]}" "${command[@]}" ||
        failed "flashing failed. Start recovery mode again, use a port of the host itself (no hub), and see the log above"
    if $setup; then
        echo "At first boot the board builds the toolkit in /opt/orin-llm and applies its setup (journalctl -u orin-llm-first-boot)." >&2
    fi
}

flash_with_sdkmanager() {
    [[ -z "$storage$bsp$board" ]] || wrong_usage "--storage, --bsp and --board are not for SDK Manager, which asks for them"
    [[ -n "$jetpack" ]] || wrong_usage "--with sdkmanager needs --jetpack VERSION (sdkmanager --query non-interactive lists them)"
    local in=$PWD
    check_host sdkmanager
    check_space "$HOME" "$sdkmanager_gb"
    check_recovery
    refuse_if_problems
    confirm "the storage of the board that you choose in SDK Manager"
    # It asks for an account and for NVIDIA's licence, which nobody can accept for you.
    run sdkmanager --cli --action install --login-type devzone --product Jetson --target-os Linux \
        --version "$jetpack" --target JETSON_AGX_ORIN_TARGETS --flash || failed "SDK Manager failed"
    echo "On the board, after its first boot, in a checkout of this repository: scripts/setup_orin.sh apply" >&2
}

case $tool in
    bsp) flash_with_bsp ;;
    sdkmanager) flash_with_sdkmanager ;;
    *) wrong_usage "--with is $tool: expected bsp or sdkmanager" ;;
esac
