// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs are what runs in a cell beside mcpscope itself.
type Programs struct{ Zoo, Client, World string }

// ProgramsIn are those that Build has put into dir.
func ProgramsIn(dir string) Programs {
	return Programs{Zoo: filepath.Join(dir, "zoo"), Client: filepath.Join(dir, "client"), World: filepath.Join(dir, "world")}
}

// Build puts the programs into dir, mcpscope and mcpscopectl, and more: commands are by the path of what they make,
// below dir, as from Go and CC. The caller's directory is a package beside this one.
func Build(dir string, more map[string][]string) error {
	if err := makeSlots(); err != nil {
		return err
	}
	commands := map[string][]string{
		"mcpscope": Go("../../cmd/mcpscope"), "mcpscopectl": Go("../../cmd/mcpscopectl"),
		"zoo":    CC("-pthread", "../escape/zoo/*.c"),
		"client": CC("../escape/client/client.c"),
		"world":  CC("../escape/client/world.c"),
	}
	for name, command := range more {
		commands[name] = command
	}
	for name, command := range commands {
		if err := provide(dir, name, command); err != nil {
			return err
		}
	}
	return nil
}

// BuildTemporary is Build for bed.Main: in a directory of the run's own, for which use says what more there is to be.
func BuildTemporary(use func(dir string) (more map[string][]string)) (cleanup func(), err error) {
	dir, err := os.MkdirTemp("", "mcpscope-built.")
	if err != nil {
		return nil, err
	}
	return func() { _ = os.RemoveAll(dir) }, Build(dir, use(dir)) // what is left is in the temporary directory
}

// output stands for the file that a command makes.
const output = ""

// Go is a command that builds a package.
func Go(args ...string) []string { return append([]string{"go", "build", "-o", output}, args...) }

// CC is a command that compiles C files: statically, so that nothing a program does to
// its surroundings can take its libraries away.
func CC(args ...string) []string {
	return append([]string{"cc", "-static", "-O1", "-Wall", "-Wextra", "-Werror", "-o", output}, args...)
}

// compile runs a command, with patterns expanded.
func compile(path string, command []string) error {
	var args []string
	for _, arg := range command {
		switch matches, err := filepath.Glob(arg); {
		case arg == output:
			args = append(args, path)
		case err == nil && len(matches) > 0:
			args = append(args, matches...)
		default:
			args = append(args, arg)
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", filepath.Base(path), err, out)
	}
	return nil
}
