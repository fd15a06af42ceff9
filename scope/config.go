//go:build linux

package scope

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/mcpscope/mcpscope/stdio"
)

// config is what the launcher hands to the supervisor, in a memory file: it may be
// longer than a message, and the command line would show it to everyone. The
// environment is not in it: the supervisor has the server's own.
type config struct {
	Version int      `json:"version"`
	Name    string   `json:"name"`
	Path    []byte   `json:"path"` // bytes: a command line need not be UTF-8
	Argv    [][]byte `json:"argv"`
	Policy  Policy   `json:"policy"`
	Started int64    `json:"started"` // Unix nanoseconds
	// Verbose asks for notes on who had to be killed, even without a report.
	Verbose bool `json:"verbose"`
	// Pgid is the process group that the main process joins; 0 for one of its own.
	Pgid   int          `json:"pgid"`
	NoFile *unix.Rlimit `json:"nofile"`
	Client clientFacts  `json:"client"`
	// Descriptors, numbered alike in launcher and supervisor.
	Control                           int
	Stdin, Input, Stdout, ClientPidfd int
	Launcher                          int // a pidfd
	Report                            int
	StdinFile                         stdio.File
}

// clientFacts says who started the server.
type clientFacts struct {
	PID  int    `json:"pid"`
	Name string `json:"name"`
}

// writeConfig returns a descriptor of the memory file.
func writeConfig(c *config) (int, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return -1, fmt.Errorf("encode configuration: %w", err)
	}
	fd, err := unix.MemfdCreate("mcpscope", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("create memory file: %w", err)
	}
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err != nil && err != unix.EINTR {
			_ = unix.Close(fd)
			return -1, fmt.Errorf("write memory file: %w", err)
		}
		b = b[max(n, 0):]
	}
	return fd, nil
}

// readConfig reads and closes the memory file.
func readConfig(fd int) (*config, error) {
	f := os.NewFile(uintptr(fd), "configuration")
	if f == nil {
		return nil, fmt.Errorf("read configuration: descriptor %d: %w", fd, unix.EBADF)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	var c config
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if c.Version != protocolVersion {
		return nil, fmt.Errorf("read configuration: version %d, expected %d", c.Version, protocolVersion)
	}
	return &c, nil
}

// inherited lists the descriptors that the supervisor gets in spite of
// close-on-exec, and that the payload must not have.
func (c *config) inherited() []int {
	var fds []int
	for _, fd := range []int{c.Control, c.Stdin, c.Input, c.Stdout, c.ClientPidfd, c.Launcher, c.Report} {
		if fd >= 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}
