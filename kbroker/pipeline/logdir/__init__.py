"""The Spark data source over log directories, live or dead, and the columnar decoder below it."""
