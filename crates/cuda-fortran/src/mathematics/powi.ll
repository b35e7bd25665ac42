define internal REAL @NAME(REAL %x, i32 %n) {
entry:
  %negative = icmp slt i32 %n, 0
  %minus = sub i32 0, %n
  %count = select i1 %negative, i32 %minus, i32 %n
  br label %next
next:
  %left = phi i32 [ %count, %entry ], [ %half, %next ]
  %power = phi REAL [ %x, %entry ], [ %square, %next ]
  %product = phi REAL [ 1.0, %entry ], [ %more, %next ]
  %low = and i32 %left, 1
  %odd = icmp ne i32 %low, 0
  %times = fmul REAL %product, %power
  %more = select i1 %odd, REAL %times, REAL %product
  %square = fmul REAL %power, %power
  %half = lshr i32 %left, 1
  %done = icmp eq i32 %half, 0
  br i1 %done, label %end, label %next
end:
  %inverse = fdiv REAL 1.0, %more
  %result = select i1 %negative, REAL %inverse, REAL %more
  ret REAL %result
}
