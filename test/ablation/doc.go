// SPDX-License-Identifier: Apache-2.0

// Package ablation has the mechanisms that protect a server's end, and for each the change that takes it out of the
// product. Go's -overlay builds the product with that change, and no file of it is touched. make ablation runs a
// choice of the cells and tests of the other packages against each such product, and writes what goes red to
// docs/dev/ablation.md. The package's own tests only check that each change still fits the source.
//
// It knows the product as text alone, and imports none of it.
package ablation
