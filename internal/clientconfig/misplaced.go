// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/known"
	"github.com/mcpscope/mcpscope/internal/clientconfig/wrapping"
	"github.com/mcpscope/mcpscope/internal/remedy"
)

// WithServerFlag returns an error of [Find] for a command that has the flag --server. If the unknown argument
// is the name of a server in the files of the other arguments, or without those in any file, the flag is the
// remedy.
func WithServerFlag(err error, args []string) error {
	unknown, isUnknown := errors.AsType[*known.UnknownError](err)
	if !isUnknown {
		return err
	}
	f, finderErr := newFinder()
	if finderErr != nil {
		return err
	}
	var places []known.File
	for _, other := range args {
		found, _ := f.Find(other) // the next call of the command reports another mistake
		places = append(places, found...)
	}
	if len(places) == 0 {
		places = f.All()
	}
	isIt := func(s wrapping.Server) bool { return s.Name == unknown.Arg }
	hasIt := func(c *File) bool { return slices.ContainsFunc(c.Servers, isIt) }
	if !slices.ContainsFunc(readFiles(places), hasIt) {
		return err
	}
	err = fmt.Errorf("there is no client and no file %q, but a server", unknown.Arg)
	return remedy.With(err, "--server "+cli.Word(unknown.Arg))
}
