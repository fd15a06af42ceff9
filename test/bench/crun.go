// SPDX-License-Identifier: Apache-2.0

//go:build linux

package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"

	"github.com/mcpscope/mcpscope/test/host"
)

var containers atomic.Int32

// crun makes the command for a new container. Its bundle is what crun spec proposes, with
// the server, which needs no libraries, as all that is in it.
func crun(argv []string) ([]string, error) {
	bundle, err := ociBundle(argv)
	if err != nil {
		return nil, err
	}
	return []string{"crun", "run", "--bundle", bundle, fmt.Sprintf("bench-%d", containers.Add(1))}, nil
}

func ociBundle(argv []string) (string, error) {
	bundle := filepath.Join(host.Shared, "bundle")
	file := filepath.Join(bundle, "config.json")
	if _, err := os.Stat(file); err == nil {
		return bundle, nil
	}
	if err := os.MkdirAll(bundle, 0o755); err != nil {
		return "", err
	}
	spec := exec.Command("crun", "spec")
	spec.Dir = bundle
	if out, err := spec.CombinedOutput(); err != nil {
		return "", fmt.Errorf("crun spec: %w: %s", err, out)
	}
	if err := os.Mkdir(filepath.Join(bundle, "rootfs"), 0o755); err != nil { // "/" itself can't be pivoted to
		return "", err
	}
	if err := os.Link(argv[0], filepath.Join(bundle, "rootfs", "server")); err != nil {
		return "", err
	}
	argv[0] = "/server"
	return bundle, adaptSpec(file, argv)
}

func adaptSpec(file string, argv []string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return fmt.Errorf("parse %s: %w", file, err)
	}
	process, linux := object(spec, "process"), object(spec, "linux")
	process["terminal"], process["args"] = false, argv
	// They would be a program for the kernel, on which the limit of locked memory is to be
	// lifted: the host's root may not.
	delete(linux, "resources")
	if text, err = json.Marshal(spec); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// object is a part of a spec, made where it is missing.
func object(spec map[string]any, key string) map[string]any {
	part, ok := spec[key].(map[string]any)
	if !ok {
		part = map[string]any{}
		spec[key] = part
	}
	return part
}
