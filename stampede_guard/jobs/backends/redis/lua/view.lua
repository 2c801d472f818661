return view_of_job()
