// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// A Feature is something of the host that a test can't do without.
type Feature struct {
	Name string
	// Missing says what is not there, or returns nil.
	Missing func() error
}

// The features that tests ask for.
var (
	UserNamespaces = Feature{Name: "user namespaces", Missing: func() error {
		max, err := ReadInts("/proc/sys/user/max_user_namespaces")
		if err == nil && max[0] == 0 {
			err = errors.New("user.max_user_namespaces is 0")
		}
		return err
	}}
)

// Controller asks for a cgroup2 controller that groups of the sandbox can have.
func Controller(name string) Feature {
	return Feature{Name: "controller " + name, Missing: func() error {
		text, err := os.ReadFile(filepath.Join(point(), "cgroup.controllers"))
		if err == nil && !strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+name+" ") {
			err = fmt.Errorf("cgroup.controllers has %q", strings.TrimSpace(string(text)))
		}
		return err
	}}
}

var skips atomic.Int32

// Require is the only way to skip a test.
func Require(tb testing.TB, feature Feature) {
	tb.Helper()
	err := feature.Missing()
	if err == nil {
		return
	}
	skips.Add(1)
	tb.Skipf("needs %s: %v", feature.Name, err)
}
