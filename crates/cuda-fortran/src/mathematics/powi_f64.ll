define internal double @accord.powi.f64(double %x, i32 %n) {
entry:
  %negative = icmp slt i32 %n, 0
  %minus = sub i32 0, %n
  %count = select i1 %negative, i32 %minus, i32 %n
  br label %next
next:
  %left = phi i32 [ %count, %entry ], [ %half, %next ]
  %power = phi double [ %x, %entry ], [ %square, %next ]
  %product = phi double [ 1.0, %entry ], [ %more, %next ]
  %low = and i32 %left, 1
  %odd = icmp ne i32 %low, 0
  %times = fmul double %product, %power
  %more = select i1 %odd, double %times, double %product
  %square = fmul double %power, %power
  %half = lshr i32 %left, 1
  %done = icmp eq i32 %half, 0
  br i1 %done, label %end, label %next
end:
  %inverse = fdiv double 1.0, %more
  %result = select i1 %negative, double %inverse, double %more
  ret double %result
}
