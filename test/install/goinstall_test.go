// SPDX-License-Identifier: Apache-2.0

package install

import (
	"archive/zip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	module  = "github.com/mcpscope/mcpscope"
	version = "v0.1.0-test.1"
)

// goInstall installs both programs as go install module/cmd/...@version does, from a module proxy
// with this checkout as that version. It runs on the machine itself, which has Go.
func goInstall(dir string) error {
	scratch, err := os.MkdirTemp("", "install-test.")
	if err != nil {
		return err
	}
	defer func() { // what go puts into its module cache is read-only
		_ = exec.Command("chmod", "-R", "u+w", scratch).Run()
		_ = os.RemoveAll(scratch)
	}()
	if err := publish(filepath.Join(scratch, "proxy")); err != nil {
		return err
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return err
	}
	places := strings.Fields(string(cache))
	cmd := exec.Command("go", "install", module+"/cmd/...@"+version)
	cmd.Dir = scratch
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOWORK=off", "GONOSUMDB="+module, "GOFLAGS=-trimpath", // not to compile all of it again
		"GOMODCACHE="+filepath.Join(scratch, "modules"), // or the version would be in the machine's for ever
		fmt.Sprintf("GOPROXY=file://%s/proxy,file://%s/cache/download,%s", scratch, places[0], strings.Join(places[1:], ",")))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go install: %w: %s", err, out)
	}
	return nil
}

// publish makes a module proxy of files.
func publish(proxy string) error {
	dir := filepath.Join(proxy, module, "@v")
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "list"), []byte(version+"\n"), 0o644),
		os.WriteFile(filepath.Join(dir, version+".mod"), mod, 0o644),
		os.WriteFile(filepath.Join(dir, version+".info"), []byte(`{"Version":"`+version+`"}`), 0o644)); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		return err
	}
	defer f.Close()
	return pack(f)
}

// pack writes the module as a proxy has it: without the modules that are in its directories.
func pack(f *os.File) error {
	ls := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard")
	ls.Dir = "../.."
	out, err := ls.Output()
	if err != nil {
		return err
	}
	names := strings.Split(strings.TrimSpace(string(out)), "\n")
	var nested []string
	for _, name := range names {
		if strings.HasSuffix(name, "/go.mod") {
			nested = append(nested, strings.TrimSuffix(name, "go.mod"))
		}
	}
	w := zip.NewWriter(f)
	for _, name := range names {
		text, err := os.ReadFile("../../" + name)
		if errors.Is(err, os.ErrNotExist) || in(nested, name) {
			continue
		}
		if err != nil {
			return err
		}
		entry, err := w.Create(module + "@" + version + "/" + name)
		if err != nil {
			return err
		}
		if _, err := entry.Write(text); err != nil {
			return err
		}
	}
	return w.Close()
}

func in(dirs []string, name string) bool {
	for _, dir := range dirs {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}
