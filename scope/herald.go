//go:build linux

package scope

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/journal"
	"github.com/mcpscope/mcpscope/memfile"
	"github.com/mcpscope/mcpscope/spawn"
)

// HeraldCommand is the subcommand by which the launcher tells the journal something. The
// journal notes the command line of whoever writes to it, and the launcher's has the server's
// arguments in it, where people put keys.
const HeraldCommand = "herald"

// announce has an entry written, and returns when that is done.
func (l *launcher) announce(entry []byte) {
	if !journal.Exists() {
		return
	}
	memory, err := memfile.Write(entry)
	if err != nil {
		return // nobody hears of it
	}
	defer unix.Close(memory)
	cmd := spawn.Cmd{
		Path: l.server.Executable, Argv: []string{"mcpscope", HeraldCommand, strconv.Itoa(memory)}, Env: l.server.Env, Keep: []int{memory},
	}
	if pid, err := cmd.Start(); err == nil {
		_, _ = unix.Wait4(pid, nil, 0, nil) // EINTR: it is alone with its work; ECHILD: it is done
	}
}

// Herald writes the entry in a memory file to the journal.
func Herald(memory int) error {
	f := os.NewFile(uintptr(memory), "entry")
	defer f.Close()
	entry, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil {
		return err
	}
	return journal.Send(entry)
}
