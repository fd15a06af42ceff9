// SPDX-License-Identifier: Apache-2.0

package escape

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mcpscope/mcpscope/test/bed"
)

// Programs has the paths of the programs that a cell runs beside mcpscope.
type Programs struct{ Zoo, Client, World string }

// ProgramsIn returns the programs that Build has put into dir.
func ProgramsIn(dir string) Programs {
	return Programs{Zoo: filepath.Join(dir, "zoo"), Client: filepath.Join(dir, "client"), World: filepath.Join(dir, "world")}
}

// Build puts the programs, mcpscope and mcpscopectl into dir. More maps further paths below dir to the
// commands that make them, as from Go and CC. The working directory must be a package two levels below
// the module's directory. Where bed.InstalledEnv names an installed mcpscope, dir has links to that one and to its tool.
func Build(dir string, more map[string][]string) error {
	if err := errors.Join(makeSlots(), AppendTable("")); err != nil { // a booted host finds them
		return err
	}
	commands := map[string][]string{
		"zoo":    CC("-pthread", "../../test/escape/zoo/*.c"),
		"client": CC("../../test/escape/client/client.c"),
		"world":  CC("../../test/escape/client/world.c"),
	}
	if installed := Installed(); installed != "" {
		if err := linkInstalled(dir, installed); err != nil {
			return err
		}
	} else {
		commands["mcpscope"] = Go("../../cmd/mcpscope")
		commands["mcpscopectl"] = Go("../../cmd/mcpscopectl")
	}
	maps.Copy(commands, more)
	for name, command := range commands {
		if err := provide(dir, name, command); err != nil {
			return err
		}
	}
	return nil
}

// Installed is the path of the mcpscope that the tests run instead of one that they build, or "".
func Installed() string { return os.Getenv(bed.InstalledEnv) }

// linkInstalled puts links to the programs of an installation into dir.
func linkInstalled(dir, mcpscope string) error {
	programs := map[string]string{
		"mcpscope":    mcpscope,
		"mcpscopectl": filepath.Join(filepath.Dir(mcpscope), "../libexec/mcpscope/mcpscopectl"),
	}
	for name, program := range programs {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("%s=%s: %w", bed.InstalledEnv, mcpscope, err)
		}
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// BuildTemporary is Build for bed.Main, in a new temporary directory. Use returns the additional commands.
func BuildTemporary(use func(dir string) (more map[string][]string)) bed.Setup {
	return func() (cleanup func(), err error) {
		dir, err := os.MkdirTemp("", "mcpscope-built.")
		if err != nil {
			return nil, err
		}
		return func() { _ = os.RemoveAll(dir) }, Build(dir, use(dir)) // a failure leaves files in the temporary directory only
	}
}

// output stands for the file that a command makes.
const output = ""

// Go is a command that builds a package, without what only a debugger needs.
func Go(args ...string) []string {
	return append([]string{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", output}, args...)
}

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
