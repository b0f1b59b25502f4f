// Package object owns buckets and their objects: the index, totals, usage by day, configuration, and
// what the management API says about them. Package blob has the bytes, package s3 speaks the
// protocol.
//
// How a write moves through it. Store.Put has the bytes written to the blob store under a new id
// (store_object.go). Then changeAll (store_change.go), the only function that changes objects of a
// bucket, locks the bucket and writes all that follows from the change in one transaction: the row,
// the references to blobs, the counts of blocks (store_block.go), the totals of the bucket, the usage
// of the day, and the events. Writers of one process share transactions. Management routes (http.go)
// and package s3 come in here.
//
// Lists are exact: all that an answer says is read in one snapshot. A bucket's keys are divided into
// blocks of at most 2,000 objects that are counted, so that the number of objects below any prefix,
// and the page at any offset, take a sum over blocks and a look into one or two of them.
//
// What an object or a part refers to is a row in the table of blobs. A blob that is replaced or
// deleted becomes garbage; its bytes, and then its row, are deleted after a grace period for readers
// (worker.go). A process that ends between the bytes and the commit leaves bytes without a row: Sweep
// removes them a day after their id was made. A write refuses to refer to a blob that is half as old,
// so that Sweep never removes one that is referred to.
package object
