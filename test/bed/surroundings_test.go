// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Tests have the variables that they know, and those of the go tool, and none of the machine or of mcpscope.
func TestEnvironment(t *testing.T) {
	env := environment([]string{
		"PATH=/bin", "GOFLAGS=-v", "TESTS_KILLS=2", "HOME=/root", "TMPDIR=/long", "LC_ALL=de_DE", "XDG_CONFIG_HOME=/x",
		"MCPSCOPE_EOF_GRACE=9s", "SUDO_UID=1000", "LD_PRELOAD=/x.so",
	}, "/t")
	for _, want := range []string{"PATH=/bin", "GOFLAGS=-v", "TESTS_KILLS=2", "HOME=/t/home", "TMPDIR=/t", "LANG=C.UTF-8"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	for _, variable := range env {
		name, _, _ := strings.Cut(variable, "=")
		if slices.Contains([]string{"LC_ALL", "XDG_CONFIG_HOME", "MCPSCOPE_EOF_GRACE", "SUDO_UID", "LD_PRELOAD"}, name) {
			t.Errorf("%s is a variable of the machine", variable)
		}
	}
}

// The accounts are those of the system alone, and root has another home.
func TestAccounts(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/bin/bash\n" +
		"daemon:x:1:1::/usr/sbin:/sbin/nologin\n" +
		"ann:x:1000:1000::/home/ann:/bin/bash\n" +
		"bob:x:60001:100::/home/bob:/bin/bash\n" +
		"nobody:x:65534:65534::/nonexistent:/sbin/nologin\n"
	const want = "root:x:0:0:root:/t/home:/bin/bash\n" +
		"daemon:x:1:1::/usr/sbin:/sbin/nologin\n" +
		"nobody:x:65534:65534::/nonexistent:/sbin/nologin\n"
	if got := Accounts(passwd, "/t/home"); got != want {
		t.Errorf("%s", got)
	}
}

// The process of a test has the home, the umask and the limit of files that all tests have, and sees nothing that is
// installed.
func TestSurroundings(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil || home != filepath.Join(os.TempDir(), "home") {
		t.Errorf("the home is %s, %v", home, err)
	}
	umask := syscall.Umask(0)
	syscall.Umask(umask)
	if umask != 0o022 {
		t.Errorf("the umask is %o", umask)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur != limit.Max || limit.Max > files {
		t.Errorf("the limit of files is %+v, %v", limit, err)
	}
	for _, path := range Installed("/") {
		found, err := os.ReadDir(path) // what was a directory is an empty one
		if err != nil || len(found) > 0 {
			t.Errorf("%s is there: %v, %v", path, found, err)
		}
	}
}

// What a package has installed is hidden, unless the tests are of that. What a person has installed always is.
func TestInstalled(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	packaged := []string{in("usr/lib/systemd/user/mcpscope-sweep.timer"), in("usr/bin/mcpscope"), in("usr/libexec/mcpscope")}
	ofMachine := []string{in("etc/mcpscope"), in("etc/systemd/system/mcpscope-sweep.timer.d"), in("usr/local/bin/mcpscope")}
	for _, path := range slices.Concat(packaged, ofMachine, []string{in("usr/bin/cat"), in("etc/passwd")}) {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for installed, want := range map[string][]string{
		"":                  slices.Concat(ofMachine, packaged),
		"/usr/bin/mcpscope": ofMachine,
	} {
		t.Setenv(InstalledEnv, installed)
		if got := Installed(root); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s=%s: %q", InstalledEnv, installed, got)
		}
	}
}
