define internal float @accord.powi.f32(float %x, i32 %n) {
entry:
  %negative = icmp slt i32 %n, 0
  %minus = sub i32 0, %n
  %count = select i1 %negative, i32 %minus, i32 %n
  br label %next
next:
  %left = phi i32 [ %count, %entry ], [ %half, %next ]
  %power = phi float [ %x, %entry ], [ %square, %next ]
  %product = phi float [ 1.0, %entry ], [ %more, %next ]
  %low = and i32 %left, 1
  %odd = icmp ne i32 %low, 0
  %times = fmul float %product, %power
  %more = select i1 %odd, float %times, float %product
  %square = fmul float %power, %power
  %half = lshr i32 %left, 1
  %done = icmp eq i32 %half, 0
  br i1 %done, label %end, label %next
end:
  %inverse = fdiv float 1.0, %more
  %result = select i1 %negative, float %inverse, float %more
  ret float %result
}
