// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// KeptEnv names a directory of programs that were built before; missing programs are built
// into it. The tests in a virtual machine have no compilers, so a run outside must fill the
// directory first.
const KeptEnv = "ESCAPE_PROGRAMS"

// SharedEnv names a directory in which the packages of one test run share their programs. It must be new for
// each run: outdated programs in it are not rebuilt.
const SharedEnv = "ESCAPE_SHARED"

// provide makes a program at path.
func provide(dir, name string, command []string) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	keep := os.Getenv(KeptEnv)
	if shared := os.Getenv(SharedEnv); keep == "" && shared != "" {
		return share(filepath.Join(shared, key(command)), path, command)
	}
	if keep == "" {
		return compile(path, command)
	}
	kept := filepath.Join(keep, name)
	if _, err := os.Stat(kept); err != nil {
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
			return err
		}
		if err := compile(kept, command); err != nil {
			return err
		}
	}
	return os.Symlink(kept, path)
}

// key is the same for commands that make the same program, from whatever directory.
func key(command []string) string {
	var all []string
	for _, arg := range command {
		if strings.HasPrefix(arg, ".") {
			if abs, err := filepath.Abs(arg); err == nil {
				arg = abs
			}
		}
		all = append(all, arg)
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(all, "\x00"))))
}

// share makes a program once for all packages. Two packages that come at the same time both make it.
func share(shared, path string, command []string) error {
	if _, err := os.Stat(shared); errors.Is(err, os.ErrNotExist) {
		own := fmt.Sprintf("%s.%d", shared, rand.Uint64()) // binaries have pid namespaces of their own
		if err := compile(own, command); err != nil {
			return err
		}
		if err := os.Rename(own, shared); err != nil {
			return err
		}
	}
	program, err := os.ReadFile(shared)
	if err != nil {
		return err
	}
	return os.WriteFile(path, program, 0o755) // no link: tests change the modes of their programs
}
