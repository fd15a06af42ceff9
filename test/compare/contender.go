// SPDX-License-Identifier: Apache-2.0

// Package compare puts what one would take instead of mcpscope to the same test: ways to stay alive
// against ways to end, and the time of a start. It writes docs/understand/comparison.md.
package compare

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"

	"github.com/mcpscope/mcpscope/test/host"
)

// contender is a command to put before a server's own, with its best flags.
type contender struct {
	name   string
	wrap   []string
	ours   bool
	better string // what it does better, or for what else it is there
	// without is what it says where it does nothing, as in a container.
	without string
	// bundle makes the command of a container runtime, from the server's own.
	bundle func(argv []string) ([]string, error)
}

func mcpscope(backend, better string) contender {
	return contender{
		name: "mcpscope, " + backend, ours: true, better: better,
		wrap: []string{host.Shared + "/mcpscope", "run", "--backend", backend, "--name", "compared", "--"},
	}
}

func contenders() []contender {
	quiet := []string{"--quiet", "--collect", "--"}
	return []contender{
		{name: "nothing", better: "starts fastest"},
		{name: "a killer of process groups", wrap: []string{host.Shared + "/pgkill"}, better: "needs nothing from the host; SDKs have it built in"},
		{name: "tini", wrap: []string{"tini", "-s", "-g", "-p", "SIGKILL", "--"}, better: "24 KB as the first process of a container"},
		{name: "dumb-init", wrap: []string{"dumb-init", "--"}, better: "rewrites signals; static, for containers"},
		{name: "setpriv --pdeathsig", wrap: []string{"setpriv", "--pdeathsig", "KILL", "--"}, better: "no process of its own beside the server"},
		{name: "unshare --pid", wrap: []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--"}, better: "a pid namespace: no member can get out of it"},
		{
			name: "bwrap", wrap: []string{"bwrap", "--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/", "--proc", "/proc", "--"},
			better: "a sandbox, also without root; a pid namespace: no member can get out of it",
		},
		{name: "firejail", wrap: []string{"firejail", "--noprofile", "--"}, better: "a sandbox with profiles for programs", without: "without any additional sandboxing"},
		{name: "runc", bundle: bundle("runc"), better: "a whole container: images, network, limits"},
		{name: "crun", bundle: bundle("crun"), better: "the same, in C"},
		{name: "systemd-run --scope", wrap: append([]string{"systemd-run", "--scope"}, quiet...), better: "limits and accounting by the host's own means"},
		{name: "systemd-run --pipe", wrap: append([]string{"systemd-run", "--pipe", "--wait", "--property=TimeoutStopSec=1s"}, quiet...), better: "a clean environment, all settings of a service"},
		mcpscope("systemd-system", "bound to the client's unit"),
		mcpscope("cgroup", "no manager needed"),
		mcpscope("tree", "no cgroup needed"),
	}
}

func (c contender) command(argv ...string) ([]string, error) {
	if c.bundle != nil {
		return c.bundle(argv)
	}
	return append(c.wrap[:len(c.wrap):len(c.wrap)], argv...), nil
}

var containers atomic.Int32

// bundle makes a container with the host's network, for the server reports there, and with the
// server, which needs no libraries, as all that is in it.
func bundle(runtime string) func(argv []string) ([]string, error) {
	return func(argv []string) ([]string, error) {
		id := fmt.Sprintf("%s-%d", runtime, containers.Add(1))
		dir := filepath.Join(host.Shared, "bundles", id)
		root := filepath.Join(dir, "rootfs")
		if err := os.MkdirAll(root, 0o755); err != nil {
			return nil, err
		}
		if err := os.Link(argv[0], filepath.Join(root, "server")); err != nil {
			return nil, err
		}
		spec := exec.Command(runtime, "spec")
		spec.Dir = dir
		if out, err := spec.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s spec: %w: %s", runtime, err, out)
		}
		if err := adapt(filepath.Join(dir, "config.json"), append([]string{"/server"}, argv[1:]...)); err != nil {
			return nil, err
		}
		return []string{runtime, "run", "--bundle", dir, id}, nil
	}
}

func adapt(file string, argv []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var spec struct {
		Rest    map[string]any
		Process map[string]any
		Linux   map[string]any
	}
	if err := json.Unmarshal(text, &spec.Rest); err != nil {
		return err
	}
	process, okP := spec.Rest["process"].(map[string]any)
	linux, okL := spec.Rest["linux"].(map[string]any)
	if !okP || !okL {
		return fmt.Errorf("%s is no description of a container", file)
	}
	process["terminal"], process["args"] = false, argv
	delete(linux, "resources") // a program for the kernel, for which the host's root has no right
	var namespaces []any
	all, _ := linux["namespaces"].([]any) // without any there is nothing to leave out
	for _, n := range all {
		if m, ok := n.(map[string]any); ok && m["type"] != "network" {
			namespaces = append(namespaces, n)
		}
	}
	linux["namespaces"] = namespaces
	if text, err = json.Marshal(spec.Rest); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
