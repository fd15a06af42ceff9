// SPDX-License-Identifier: Apache-2.0

//go:build linux

package diagnose

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/kernel/proc"
	"github.com/mcpscope/mcpscope/internal/server/hierarchy"
	"github.com/mcpscope/mcpscope/internal/units"
)

// oldest is the oldest Linux that servers are tested on: 5.14 brought cgroup.kill.
const oldest = "5.14"

// host contains facts that explain why a backend works or fails. Only a trial proves that it works.
type host struct {
	Kernel    string    `json:"kernel"`
	Old       bool      `json:"kernel_too_old,omitempty"`
	Cgroup    groups    `json:"cgroup"`
	Lingering bool      `json:"lingering"`
	Init      firstOne  `json:"init"`
	Unit      *cli.Unit `json:"unit,omitempty"`
	Swap      string    `json:"swap,omitempty"` // zram or disk
}

// groups is the place of this process in the cgroup2 hierarchy.
type groups struct {
	Mount   string `json:"mount,omitempty"`
	Path    string `json:"path,omitempty"`
	Hybrid  bool   `json:"hybrid"` // cgroup v1 is mounted, too, and has controllers
	Problem string `json:"problem,omitempty"`
}

// firstOne is the process that adopts orphans.
type firstOne struct {
	Name  string `json:"name,omitempty"`
	Reaps bool   `json:"reaps"` // false if it is not known
}

func readHost() host {
	h := host{Init: firstOne{Reaps: hierarchy.InitReaps()}, Unit: cli.OwnUnit(), Swap: swap()}
	var name unix.Utsname
	_ = unix.Uname(&name) // cannot fail
	h.Kernel = unix.ByteSliceToString(name.Release[:])
	h.Old = isOld(h.Kernel)
	h.Init.Name, _ = proc.Comm(1) // "" without /proc
	if u, err := user.Current(); err == nil {
		_, err = os.Stat("/var/lib/systemd/linger/" + u.Username)
		h.Lingering = err == nil
	}
	here, err := hierarchy.OwnPosition()
	if err != nil {
		h.Cgroup.Problem = err.Error()
	} else {
		h.Cgroup.Mount = here.Root.Path()
		_ = here.Root.Close() // a directory
	}
	h.Cgroup.Path, _ = proc.ReadCgroup(0) // "" without /proc
	all, _ := os.ReadFile("/proc/self/cgroup")
	h.Cgroup.Hybrid = strings.Count(string(all), "\n") > 1
	if h.Unit != nil && h.Unit.Service() {
		h.Unit.KillMode = killMode(h.Unit)
	}
	return h
}

// isOld parses a release such as "6.18.5-1-amd64". It returns false for other texts.
func isOld(release string) bool {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return err == nil && (major < 5 || major == 5 && minor < 14)
}

// swap returns where the memory of idle servers can go.
func swap() string {
	text, _ := os.ReadFile("/proc/swaps") // does not exist on a kernel without swap
	switch devices := strings.Count(string(text), "\n") - 1; {
	case strings.Contains(string(text), "/zram"):
		return "zram"
	case devices > 0:
		return "disk"
	}
	return ""
}

// managerWithin bounds the wait for a manager, which may hang.
const managerWithin = 2 * time.Second

func killMode(u *cli.Unit) string {
	ctx, cancel := context.WithTimeout(context.Background(), managerWithin)
	defer cancel()
	show := units.Systemctl(ctx, u.Manager, "show", "--value", "--property=KillMode", u.Name)
	out, _ := show.Output() // "" without an answer
	return strings.TrimSpace(string(out))
}

// ownGroup returns the group of this process, and the controllers of the group above it: inside a server, the
// controllers for its limits.
func ownGroup() (at string, controllers []string) {
	at, _ = proc.ReadCgroup(0) // "" without /proc
	here, err := hierarchy.OwnPosition()
	if err != nil {
		return at, nil
	}
	defer here.Root.Close()
	above, err := here.Root.Child(filepath.Join(".", filepath.Dir(here.Path)))
	if err != nil {
		return at, nil
	}
	defer above.Close()
	list, _ := above.Read("cgroup.controllers") // none, if it cannot be read
	return at, strings.Fields(string(list))
}
