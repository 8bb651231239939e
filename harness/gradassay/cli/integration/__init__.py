"""What `gradassay ci` is made of: from a matrix file to a verdict, and to what the job leaves for people."""
