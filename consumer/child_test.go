package consumer_test

// childMain is the main of a test binary that was started again as a child: a consumer that a test may kill or freeze.
func childMain() bool { return false }
