// SPDX-License-Identifier: Apache-2.0

// Package remedy gives an error the next step: a command that a person can paste, or a sentence. Packages
// that find the cause know the step; only the commands print it.
package remedy

import "errors"

type stepError struct {
	error
	step string
}

func (e *stepError) Unwrap() error { return e.error }

// With returns err with its next step. Without an error or a step it returns err.
func With(err error, step string) error {
	if err == nil || step == "" {
		return err
	}
	return &stepError{err, step}
}

// Of returns the outermost step of an error, or "".
func Of(err error) string {
	if e, ok := errors.AsType[*stepError](err); ok {
		return e.step
	}
	return ""
}
