// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/group"
	"github.com/mcpscope/mcpscope/internal/units"
)

// host contains facts that explain why a backend works or fails. Only a trial proves that it works.
type host struct {
	Kernel    string   `json:"kernel"`
	Old       bool     `json:"kernel_too_old,omitempty"`
	Cgroup    groups   `json:"cgroup"`
	Lingering bool     `json:"lingering"`
	Init      struct { // the process that adopts orphans
		Name  string `json:"name,omitempty"`
		Reaps bool   `json:"reaps"` // false if it is not known
	} `json:"init"`
	Unit *cli.Unit `json:"unit,omitempty"`
	Swap string    `json:"swap,omitempty"` // zram or disk
	// SwapRemedy is a command for a host without swap.
	SwapRemedy string `json:"swap_remedy,omitempty"`
}

// groups is the place of this process in the cgroup2 hierarchy.
type groups struct {
	Mount   string `json:"mount,omitempty"`
	Path    string `json:"path,omitempty"`
	Hybrid  bool   `json:"hybrid"` // cgroup v1 is mounted, too, and has controllers
	Problem string `json:"problem,omitempty"`
}

func readHost() host {
	h := host{Unit: cli.OwnUnit(), Swap: Swap()}
	if h.Swap == "" {
		h.SwapRemedy = ZramCommand()
	}
	var name unix.Utsname
	_ = unix.Uname(&name) // cannot fail
	h.Kernel = unix.ByteSliceToString(name.Release[:])
	var major, minor int
	_, err := fmt.Sscanf(h.Kernel, "%d.%d", &major, &minor)
	h.Old = err == nil && (major < 5 || major == 5 && minor < 14)
	h.Init.Name, _ = proc.Comm(1) // "" without /proc
	h.Init.Reaps = group.InitReaps()
	if u, err := user.Current(); err == nil {
		_, err = os.Stat("/var/lib/systemd/linger/" + u.Username)
		h.Lingering = err == nil
	}
	root, _, err := group.Position(0)
	if err != nil {
		h.Cgroup.Problem = err.Error()
	} else {
		h.Cgroup.Mount = root.Path()
		_ = root.Close() // a directory
	}
	h.Cgroup.Path, _ = proc.ReadCgroup(0) // "" without /proc
	all, _ := os.ReadFile("/proc/self/cgroup")
	h.Cgroup.Hybrid = strings.Count(string(all), "\n") > 1
	if h.Unit != nil && h.Unit.Service() {
		h.Unit.KillMode, _ = units.Systemctl( // "" without an answer
			h.Unit.Manager, "show", "--value", "--property=KillMode", h.Unit.Name)
	}
	return h
}

// Swap returns where the memory of idle servers can go: "zram", "disk" or "".
func Swap() string {
	text, _ := os.ReadFile("/proc/swaps") // does not exist on a kernel without swap
	switch devices := strings.Count(string(text), "\n") - 1; {
	case strings.Contains(string(text), "/zram"):
		return "zram"
	case devices > 0:
		return "disk"
	}
	return ""
}

// ZramCommand gives this host zram, at once and at each boot: half of its memory. It is "" where that is
// unknown. Those of Debian 12 and 13 were tried, the others are from their documentation.
func ZramCommand() string {
	if unix.Access("/run/systemd/system", unix.F_OK) != nil { // sd_booted(3)
		return ""
	}
	text, _ := os.ReadFile("/etc/os-release") // os-release(5); without it nothing is known
	install := zramPackage(string(text))
	if install == "" {
		return ""
	}
	return `sudo sh -c "` + install + ` && systemctl daemon-reload && systemctl start dev-zram0.swap"`
}

// zramPackage installs the generator of zram units. It does nothing without a configuration, which Arch's has
// not.
func zramPackage(release string) string {
	for line := range strings.Lines(release) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "ID" && key != "ID_LIKE" {
			continue
		}
		for _, id := range strings.Fields(strings.Trim(value, `"'`)) {
			switch id {
			case "debian", "ubuntu":
				return "apt install systemd-zram-generator"
			case "fedora":
				return "dnf install zram-generator-defaults"
			case "arch":
				return "pacman -S zram-generator && echo '[zram0]' >/etc/systemd/zram-generator.conf"
			}
		}
	}
	return ""
}

// ownGroup is the group of this process. The controllers above it are those for the limits of a server.
func ownGroup() (own probed) {
	own.Cgroup, _ = proc.ReadCgroup(0) // "" without /proc
	root, path, err := group.Position(0)
	if err != nil {
		return own
	}
	defer root.Close()
	above, err := root.Child(filepath.Join(".", filepath.Dir(path)))
	if err != nil {
		return own
	}
	defer above.Close()
	list, _ := above.Read("cgroup.controllers") // none, if it cannot be read
	own.Controllers = strings.Fields(string(list))
	return own
}
